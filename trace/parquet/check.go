package parquet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// maxRowsPerByte bounds the rows that a file may announce, per byte of the file.
const maxRowsPerByte = 1 << 10

// codecs are the compressions of format v1. LZ4 is excluded: the Go library decodes some of it to
// wrong values, and allocates without bound when it decodes damaged data.
var codecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd}

// ErrCodec reports a compression that traces and sources of traces must not have.
var ErrCodec = fmt.Errorf("expected one of %v. Write the file again, for example with zstd", codecs)

// CheckCodec returns an error of kind ErrCodec if traces must not have the compression.
func CheckCodec(c *format.ColumnMetaData) error {
	if slices.Contains(codecs, c.Codec) {
		return nil
	}
	return fmt.Errorf("column %s: compression %v, %w", strings.Join(c.PathInSchema, "."), c.Codec, ErrCodec)
}

// CheckPages compares all page headers with the footer and reports whether every page has a CRC.
// Neither page headers nor the footer have a checksum. Each number is in both, so the comparison
// reveals damage. With anyEncoding, pages may have encodings that the footer does not list.
func (f *File) CheckPages(anyEncoding bool) (crc bool, err error) {
	crc = true
	err = Guard(func() error {
		return f.checkGroups(func(group *format.RowGroup, i int) error {
			all, err := f.checkChunk(group, i, anyEncoding)
			crc = crc && all
			return err
		})
	})
	if err != nil {
		return false, err
	}
	for i := range f.chunks {
		f.chunks[i].listed, f.chunks[i].known = true, true // without places: the headers were compared
	}
	return crc, nil
}

// checkGroups checks the rows and columns of every row group. It calls check for the column chunks
// of groups with rows.
func (f *File) checkGroups(check func(group *format.RowGroup, i int) error) error {
	groups := f.Metadata().RowGroups
	var rows int64
	for g := range groups {
		group := &groups[g]
		rows += group.NumRows
		if group.NumRows < 0 || group.NumRows/maxRowsPerByte > f.Size() || len(group.Columns) != len(f.Leaves) {
			return fmt.Errorf("row group %d: %d rows and %d columns in a file of %d bytes and %d columns", g, group.NumRows, len(group.Columns), f.Size(), len(f.Leaves))
		}
		if group.NumRows == 0 {
			continue // the chunks of an empty group may point anywhere and are not read
		}
		for i := range group.Columns {
			if err := check(group, i); err != nil {
				return fmt.Errorf("row group %d column %s: %w", g, f.Leaves[i].Name, err)
			}
		}
	}
	if rows != f.NumRows() {
		return fmt.Errorf("row groups of %d rows in a file of %d", rows, f.NumRows())
	}
	return f.checkOverlap()
}

// checkChunk checks one column chunk. It reports whether all of its pages have a CRC.
func (f *File) checkChunk(group *format.RowGroup, i int, anyEncoding bool) (crc bool, err error) {
	c, l := &group.Columns[i].MetaData, &f.Leaves[i]
	if err := CheckCodec(c); err != nil {
		return false, err
	}
	crc = true
	var values int64
	begun := false
	err = f.walkPages(c, func(p *pageHead) error {
		crc = crc && p.hasCRC()
		if p.isData() {
			values += p.values()
			if !begun && p.at != c.DataPageOffset && c.DictionaryPageOffset > 0 {
				return fmt.Errorf("is the first data page, but the footer states byte %d", c.DataPageOffset)
			}
			begun = true
			if !anyEncoding && !slices.Contains(c.Encoding, p.encoding()) {
				return fmt.Errorf("page encoding %v, the footer lists %v", p.encoding(), c.Encoding)
			}
		}
		if err := checkPage(c, l, p); err != nil {
			return err
		}
		return checkPacked(c, p, f.source, p.data)
	})
	if err != nil {
		return false, err
	}
	if values != c.NumValues {
		return false, fmt.Errorf("pages of %d values in a column chunk of %d", values, c.NumValues)
	}
	if values < group.NumRows || !l.List && values != group.NumRows {
		return false, fmt.Errorf("%d values in %d rows", values, group.NumRows)
	}
	return crc, nil
}

// checkOverlap reports column chunks that share bytes.
func (f *File) checkOverlap() error {
	type span struct{ from, to int64 }
	var spans []span
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			if g.NumRows == 0 {
				break
			}
			from, to := chunkRange(&g.Columns[i].MetaData)
			spans = append(spans, span{from, to})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return fmt.Errorf("two column chunks share bytes %d to %d", spans[i].from, spans[i-1].to)
		}
	}
	return nil
}

// Limits of the numbers in a page header. A page's CRC covers its data and not its header, and the
// decoder allocates the announced sizes.
const (
	maxPageValues = 1 << 27
	maxPageBytes  = 1 << 30
	maxPageRatio  = 1 << 16 // uncompressed to compressed bytes: zstd reaches 2¹⁵
)

func checkPage(c *format.ColumnMetaData, l *Leaf, p *pageHead) error {
	plain, packed := int64(p.UncompressedPageSize), int64(p.CompressedPageSize)
	v2 := &p.DataPageHeaderV2.V
	stored := c.Codec == format.Uncompressed || p.DataPageHeaderV2.Valid && v2.IsCompressed.Valid && !v2.IsCompressed.V
	switch {
	case plain < 0 || plain > maxPageBytes || plain > (packed+1)*maxPageRatio:
		return fmt.Errorf("page of %d bytes, %d uncompressed", packed, plain)
	case stored && plain != packed:
		return fmt.Errorf("page without compression of %d bytes, %d uncompressed", packed, plain)
	case p.Type == format.DictionaryPage:
		if n := p.DictionaryPageHeader.V.NumValues; n < 0 || n > p.UncompressedPageSize { // a value takes at least one byte
			return fmt.Errorf("dictionary of %d values in %d bytes", n, p.UncompressedPageSize)
		}
		return nil
	case p.Type != format.DataPage && p.Type != format.DataPageV2 || !p.isData():
		return fmt.Errorf("page of type %v", p.Type)
	case p.values() < 0 || p.values() > maxPageValues:
		return fmt.Errorf("page of %d values", p.values())
	case p.DataPageHeaderV2.Valid:
		return checkPageV2(c, l, p)
	}
	return nil
}

func checkPageV2(c *format.ColumnMetaData, l *Leaf, p *pageHead) error {
	v2 := &p.DataPageHeaderV2.V
	levels := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
	present := p.values() - int64(v2.NumNulls)
	wide := c.Type == format.Int32 || c.Type == format.Float
	switch {
	case v2.NumValues == 0 && l.maxDef > 0: // pyarrow makes them if a list is longer than data_page_size
		return errors.New("page of version 2 without values. Write the file with data_page_version 1.0 or larger pages")
	case v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > int64(p.CompressedPageSize) || levels > int64(p.UncompressedPageSize):
		return fmt.Errorf("levels of %d bytes in a page of %d", levels, p.CompressedPageSize)
	case v2.NumValues > 0 && (v2.RepetitionLevelsByteLength > 0 != l.List || v2.DefinitionLevelsByteLength > 0 != (l.maxDef > 0)):
		return fmt.Errorf("%d bytes of repetition and %d of definition levels", v2.RepetitionLevelsByteLength, v2.DefinitionLevelsByteLength)
	case present < 0 || v2.NumNulls < 0 || v2.NumRows < 0 || v2.NumRows > v2.NumValues:
		return fmt.Errorf("page of %d values, %d null, %d rows", v2.NumValues, v2.NumNulls, v2.NumRows)
	case wide && (v2.Encoding == format.Plain || v2.Encoding == format.ByteStreamSplit) && int64(p.UncompressedPageSize) != levels+4*present:
		return fmt.Errorf("page of %d values of 4 bytes has %d bytes", present, int64(p.UncompressedPageSize)-levels)
	}
	return nil
}

// checkPacked compares the length in the compressed data with the page header, because the decoder
// allocates by the header. If the data state no length and the header is much larger than the data,
// it decompresses them to count. The data begin at byte at of source.
func checkPacked(c *format.ColumnMetaData, p *pageHead, source io.ReaderAt, at int64) error {
	v2 := &p.DataPageHeaderV2.V
	if c.Codec == format.Uncompressed || p.DataPageHeaderV2.Valid && v2.IsCompressed.Valid && !v2.IsCompressed.V {
		return nil
	}
	var levels int64 // they precede the compressed data in pages v2
	if p.DataPageHeaderV2.Valid {
		levels = int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
	}
	packed, want := io.NewSectionReader(source, at+levels, int64(p.CompressedPageSize)-levels), int64(p.UncompressedPageSize)-levels
	var buf [zstd.HeaderMaxSize]byte
	n, err := packed.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	got, known := packedLength(c.Codec, buf[:n])
	if !known && want > plainUnseen+plainRatio*packed.Size() {
		data, err := io.ReadAll(packed)
		if err != nil {
			return err
		}
		plain, err := parquetgo.LookupCompressionCodec(c.Codec).Decode(nil, data)
		if err != nil {
			return err
		}
		got, known = uint64(len(plain)), true
	}
	if known && got != uint64(want) {
		return fmt.Errorf("%v data of %d bytes uncompressed, the page header states %d", c.Codec, got, want)
	}
	return nil
}

// Limits of the uncompressed bytes that are allocated without a check: an absolute size, and a
// multiple of the page's compressed size.
const (
	plainUnseen = 1 << 20
	plainRatio  = 16
)

// packedLength returns the uncompressed length at the start of compressed data, in bytes. Snappy
// always states it, zstd mostly.
func packedLength(codec format.CompressionCodec, data []byte) (n uint64, known bool) {
	var h zstd.Header
	switch {
	case codec == format.Snappy:
		n, used := binary.Uvarint(data)
		return n, used > 0
	case codec != format.Zstd || h.Decode(data) != nil:
		return 0, false
	}
	return h.FrameContentSize, h.HasFCS
}

// PageData lists the byte ranges of the file that hold page data. CRCs cover these bytes.
func (f *File) PageData() (ranges [][2]int64) {
	for _, g := range f.Metadata().RowGroups {
		for i := range g.Columns {
			_ = f.walkPages(&g.Columns[i].MetaData, func(p *pageHead) error {
				ranges = append(ranges, [2]int64{p.data, p.end()})
				return nil
			})
		}
	}
	return ranges
}
