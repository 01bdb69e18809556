package trace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go/format"
)

// maxRowsPerByte bounds the rows that a file may announce, by its size.
const maxRowsPerByte = 1 << 10

// codecs are the compressions of format v1. LZ4 is not: the Go library decodes some of it
// to other values, and allocates without bound when it decodes damage.
var codecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd}

// CheckCodec reports a compression that no Parquet file may have that is read here, a trace
// or a source of one.
func CheckCodec(codec format.CompressionCodec) error {
	if slices.Contains(codecs, codec) {
		return nil
	}
	return fmt.Errorf("compression %v, expected one of %v", codec, codecs)
}

// checkPages holds all page headers against the footer and reports whether every page
// has a CRC. Neither page headers nor the footer have a checksum, but each number
// stands in both: a damaged one is noticed here.
func (f *File) checkPages() (crc bool, err error) {
	crc = true
	groups := f.parquet.Metadata().RowGroups
	var rows int64
	for g := range groups {
		group := &groups[g]
		rows += group.NumRows
		if group.NumRows < 0 || group.NumRows/maxRowsPerByte > f.size || len(group.Columns) != len(f.parquet.Schema().Columns()) {
			return false, fmt.Errorf("row group %d: %d rows and %d columns in a file of %d bytes and %d columns", g, group.NumRows, len(group.Columns), f.size, len(f.parquet.Schema().Columns()))
		}
		if group.NumRows == 0 {
			continue // its chunks are anywhere, and are not read
		}
		for i := range group.Columns {
			l := f.leafOf(i)
			all, err := f.checkChunk(group, i, l)
			if err != nil {
				return false, fmt.Errorf("row group %d column %s: %w", g, l.name, err)
			}
			crc = crc && all
		}
	}
	if rows != f.parquet.NumRows() {
		return false, fmt.Errorf("row groups of %d rows in a file of %d", rows, f.parquet.NumRows())
	}
	return crc, f.checkOverlap()
}

// leafOf is the column of the format that stands at index in the file, or in a file of
// whatever columns what they say of their pages.
func (f *File) leafOf(index int) *leaf {
	if f.foreignLeaves != nil {
		return &f.foreignLeaves[index]
	}
	return &f.leaves[slices.IndexFunc(f.leaves[:], func(l leaf) bool { return l.index == index })]
}

// checkChunk checks one column chunk; crc is whether all of its pages have a CRC.
func (f *File) checkChunk(group *format.RowGroup, i int, l *leaf) (crc bool, err error) {
	c := &group.Columns[i].MetaData
	if err := CheckCodec(c.Codec); err != nil {
		return false, err
	}
	if n := int64(group.Columns[i].OffsetIndexLength); n < 0 || n > f.size {
		return false, fmt.Errorf("offset index of %d bytes", n)
	}
	crc = true
	var values int64
	begun := false
	err = f.walkPages(c, func(p *pageHead) error {
		crc = crc && p.hasCRC()
		if p.isData() {
			values += p.values()
			if !begun && p.at != c.DataPageOffset && c.DictionaryPageOffset > 0 {
				return fmt.Errorf("is the first of data, the footer says that the one at byte %d is", c.DataPageOffset)
			}
			begun = true
		}
		if err := checkPage(c, l, p); err != nil {
			return err
		}
		return f.checkPacked(c, p)
	})
	if err != nil {
		return false, err
	}
	if values != c.NumValues {
		return false, fmt.Errorf("pages of %d values in a column chunk of %d", values, c.NumValues)
	}
	if values < group.NumRows || !l.list && values != group.NumRows {
		return false, fmt.Errorf("%d values in %d rows", values, group.NumRows)
	}
	return crc, nil
}

// checkOverlap reports column chunks that share bytes.
func (f *File) checkOverlap() error {
	type span struct{ from, to int64 }
	var spans []span
	for _, g := range f.parquet.Metadata().RowGroups {
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
