package trace

import (
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// columnChunk is a column's part of a row group: its pages, and what the file says of them.
type columnChunk struct {
	pages   [][]byte // one after another, in parts
	at      int64    // where they begin, by what the file says
	meta    format.ColumnMetaData
	index   format.ColumnIndex
	offsets format.OffsetIndex
}

// move gives the pages another place.
func (c *columnChunk) move(at int64) {
	by := at - c.at
	c.at = at
	c.meta.DataPageOffset += by
	if c.meta.DictionaryPageOffset != 0 {
		c.meta.DictionaryPageOffset += by
	}
	for i := range c.offsets.PageLocations {
		c.offsets.PageLocations[i].Offset += by
	}
}

// listChunk is the column chunk of a list column in the open row group.
type listChunk struct {
	listPages
	columnChunk
	filled   []*page // behind its length, those of the row group before, to be filled again
	length   int64   // of its pages in the file
	rows     int64   // in them
	bounds   parquet.ColumnIndexer
	min, max parquet.Value // of all values, null where there is none
}

// reset opens the next row group. What finish returned stays valid, but for the pages.
func (c *listChunk) reset() {
	node := c.Node
	encodings := []format.Encoding{format.RLE, node.Encoding().Encoding()}
	slices.Sort(encodings)
	c.columnChunk = columnChunk{meta: format.ColumnMetaData{
		Type:          format.Type(node.Type().Kind()),
		Encoding:      encodings,
		PathInSchema:  c.Path,
		EncodingStats: []format.PageEncodingStats{{PageType: format.DataPageV2, Encoding: node.Encoding().Encoding()}},
		SizeStatistics: format.SizeStatistics{
			RepetitionLevelHistogram: make([]int64, c.MaxRepetitionLevel+1),
			DefinitionLevelHistogram: make([]int64, c.MaxDefinitionLevel+1),
		},
	}}
	if codec := node.Compression(); codec != nil {
		c.meta.Codec = codec.CompressionCodec()
	}
	c.filled, c.length, c.rows = c.filled[:0], 0, 0
	c.bounds = node.Type().NewColumnIndexer(parquet.DefaultColumnIndexSizeLimit)
	c.min, c.max = parquet.Value{}, parquet.Value{}
}

// page appends a page of rows with lists of such lengths, which have count values.
func (c *listChunk) page(lengths []int32, values encoding.Values, count int) error {
	to := c.next()
	head, err := c.fill(to, lengths, values, count)
	if err != nil {
		return err
	}
	size := int32(to.size())
	c.offsets.PageLocations = append(c.offsets.PageLocations,
		format.PageLocation{Offset: c.length, CompressedPageSize: size, FirstRowIndex: c.rows})
	c.length += int64(size)
	c.rows += int64(len(lengths))
	c.meta.TotalCompressedSize += int64(size)
	c.meta.TotalUncompressedSize += int64(size - head.CompressedPageSize + head.UncompressedPageSize)
	c.meta.NumValues += int64(c.levels.count)
	c.meta.Statistics.NullCount += int64(c.levels.count - count)
	c.meta.EncodingStats[0].Count++
	sizes, index := &c.meta.SizeStatistics, &c.index
	index.RepetitionLevelHistogram = countLevels(index.RepetitionLevelHistogram, sizes.RepetitionLevelHistogram, c.levels.repeated[:])
	index.DefinitionLevelHistogram = countLevels(index.DefinitionLevelHistogram, sizes.DefinitionLevelHistogram, c.levels.defined[:])
	c.bound(c.Node.Type().NewPage(c.ColumnIndex, count, values))
	return nil
}

// next appends a page that is to be filled. A new one has room for as many bytes as the one
// before it, and an eighth: pages are of one size but for the last.
func (c *listChunk) next() *page {
	n := len(c.filled)
	c.filled = slices.Grow(c.filled, 1)[:n+1]
	if c.filled[n] == nil {
		c.filled[n] = new(page)
		if n > 0 {
			last := len(c.filled[n-1].data)
			c.filled[n].data = make([]byte, 0, last+last/8)
		}
	}
	return c.filled[n]
}

// countLevels adds the levels of a page to those of all pages, and appends them to the
// pages' counts.
func countLevels(pages, all []int64, page []int64) []int64 {
	for level := range all {
		all[level] += page[level]
	}
	return append(pages, page[:len(all)]...)
}

// bound takes the values of the last page into the bounds of all.
func (c *listChunk) bound(values parquet.Page) {
	least, most, some := values.Bounds()
	c.bounds.IndexPage(int64(c.levels.count), int64(c.levels.count)-values.NumValues(), least, most)
	if !some {
		return
	}
	compare := c.Node.Type().Compare
	if c.min.IsNull() || compare(least, c.min) < 0 {
		c.min = least
	}
	if c.max.IsNull() || compare(most, c.max) > 0 {
		c.max = most
	}
}

// finish returns the chunk, and opens the next row group.
func (c *listChunk) finish() columnChunk {
	if !c.min.IsNull() {
		c.meta.Statistics.MinValue, c.meta.Statistics.MaxValue = c.min.Bytes(), c.max.Bytes()
	}
	index := c.bounds.ColumnIndex()
	index.RepetitionLevelHistogram, index.DefinitionLevelHistogram = c.index.RepetitionLevelHistogram, c.index.DefinitionLevelHistogram
	done := columnChunk{meta: c.meta, index: index, offsets: c.offsets}
	for _, p := range c.filled {
		done.pages = append(done.pages, p.head.Bytes(), p.data)
	}
	c.reset()
	return done
}
