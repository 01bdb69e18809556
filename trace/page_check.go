package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds on what a page header may announce. A page's CRC covers its data, not its
// header, and the decoder allocates what the header says.
const (
	maxPageValues = 1 << 27
	maxPageBytes  = 1 << 30
	maxPageRatio  = 1 << 16 // uncompressed to compressed bytes: zstd reaches 2¹⁵
)

// checkPage checks what one page header says of itself.
func checkPage(c *format.ColumnMetaData, l *leaf, p *pageHead) error {
	plain, packed := int64(p.UncompressedPageSize), int64(p.CompressedPageSize)
	v2 := &p.DataPageHeaderV2.V
	stored := c.Codec == format.Uncompressed || p.DataPageHeaderV2.Valid && v2.IsCompressed.Valid && !v2.IsCompressed.V
	switch {
	case plain < 0 || plain > maxPageBytes || plain > (packed+1)*maxPageRatio:
		return fmt.Errorf("page of %d bytes, %d uncompressed", packed, plain)
	case stored && plain != packed:
		return fmt.Errorf("page without compression of %d bytes, %d uncompressed", packed, plain)
	case p.Type == format.DictionaryPage:
		return checkDictionary(p)
	case p.Type != format.DataPage && p.Type != format.DataPageV2 || !p.isData():
		return fmt.Errorf("page of type %v", p.Type)
	case p.values() < 0 || p.values() > maxPageValues:
		return fmt.Errorf("page of %d values", p.values())
	case !slices.Contains(c.Encoding, p.encoding()) && !l.foreign:
		return fmt.Errorf("page encoding %v, the footer lists %v", p.encoding(), c.Encoding)
	case p.DataPageHeaderV2.Valid:
		return checkPageV2(c, l, p)
	}
	return nil
}

// checkDictionary bounds the values that a dictionary announces: each takes a byte at least.
func checkDictionary(p *pageHead) error {
	if n := p.DictionaryPageHeader.V.NumValues; n < 0 || n > p.UncompressedPageSize {
		return fmt.Errorf("dictionary of %d values in %d bytes", n, p.UncompressedPageSize)
	}
	return nil
}

func checkPageV2(c *format.ColumnMetaData, l *leaf, p *pageHead) error {
	v2 := &p.DataPageHeaderV2.V
	levels := int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
	present := p.values() - int64(v2.NumNulls)
	wide := c.Type == format.Int32 || c.Type == format.Float
	switch {
	case v2.NumValues == 0 && l.maxDef > 0: // pyarrow makes them where a list is longer than data_page_size
		return errors.New("page of version 2 without values, which Go's library cannot read: have the file written with data_page_version 1.0 or larger pages")
	case v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > int64(p.CompressedPageSize) || levels > int64(p.UncompressedPageSize):
		return fmt.Errorf("levels of %d bytes in a page of %d", levels, p.CompressedPageSize)
	case v2.NumValues > 0 && (v2.RepetitionLevelsByteLength > 0 != l.list || v2.DefinitionLevelsByteLength > 0 != (l.maxDef > 0)):
		return fmt.Errorf("%d bytes of repetition and %d of definition levels", v2.RepetitionLevelsByteLength, v2.DefinitionLevelsByteLength)
	case present < 0 || v2.NumNulls < 0 || v2.NumRows < 0 || v2.NumRows > v2.NumValues:
		return fmt.Errorf("page of %d values, %d null, %d rows", v2.NumValues, v2.NumNulls, v2.NumRows)
	case wide && (v2.Encoding == format.Plain || v2.Encoding == format.ByteStreamSplit) && int64(p.UncompressedPageSize) != levels+4*present:
		return fmt.Errorf("page of %d values of 4 bytes has %d bytes", present, int64(p.UncompressedPageSize)-levels)
	}
	return nil
}

// checkPacked holds the length that compressed data announce themselves, by which the
// decoder allocates, against the page header. Where they announce none, a header that says
// much more than they take is held against what they hold.
func (f *File) checkPacked(c *format.ColumnMetaData, p *pageHead) error {
	v2 := &p.DataPageHeaderV2.V
	if c.Codec == format.Uncompressed || p.DataPageHeaderV2.Valid && v2.IsCompressed.Valid && !v2.IsCompressed.V {
		return nil
	}
	var levels int64 // stand before the compressed data in pages v2
	if p.DataPageHeaderV2.Valid {
		levels = int64(v2.RepetitionLevelsByteLength) + int64(v2.DefinitionLevelsByteLength)
	}
	packed, want := io.NewSectionReader(f.source, p.data+levels, p.end()-p.data-levels), int64(p.UncompressedPageSize)-levels
	var buf [zstd.HeaderMaxSize]byte
	n, err := packed.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	got, stated := packedLength(c.Codec, buf[:n])
	if !stated && want > plainUnseen+plainRatio*packed.Size() {
		if got, err = unpackedLength(c.Codec, packed); err != nil {
			return err
		}
		stated = true
	}
	if stated && got != uint64(want) {
		return fmt.Errorf("%v data of %d bytes uncompressed, the page header says %d", c.Codec, got, want)
	}
	return nil
}

// Uncompressed bytes of a page that are allocated on the word of its header: few, or not many
// more than the page takes.
const (
	plainUnseen = 1 << 20
	plainRatio  = 16
)

// unpackedLength is the length of what compressed data hold, which it takes memory for.
func unpackedLength(codec format.CompressionCodec, packed *io.SectionReader) (uint64, error) {
	data, err := io.ReadAll(packed)
	if err != nil {
		return 0, err
	}
	plain, err := parquet.LookupCompressionCodec(codec).Decode(nil, data)
	return uint64(len(plain)), err
}

// packedLength is the uncompressed length that data of Snappy and mostly of zstd begin with.
func packedLength(codec format.CompressionCodec, data []byte) (n uint64, stated bool) {
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
