package trace

import (
	"bytes"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// columnChunk is a column's part of a row group: its pages, and what the file says of them.
type columnChunk struct {
	pages   []byte
	at      int64 // where the pages begin, by what the file says
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
	buffer   bytes.Buffer // the pages
	rows     int64        // in them
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
	c.buffer.Reset()
	c.rows = 0
	c.bounds = node.Type().NewColumnIndexer(parquet.DefaultColumnIndexSizeLimit)
	c.min, c.max = parquet.Value{}, parquet.Value{}
}

// page appends a page of rows with lists of such lengths, which have count values.
func (c *listChunk) page(lengths []int32, values encoding.Values, count int) error {
	begin := c.buffer.Len()
	head, err := c.append(&c.buffer, lengths, values, count)
	if err != nil {
		return err
	}
	size := int32(c.buffer.Len() - begin)
	c.offsets.PageLocations = append(c.offsets.PageLocations,
		format.PageLocation{Offset: int64(begin), CompressedPageSize: size, FirstRowIndex: c.rows})
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
	done := columnChunk{pages: c.buffer.Bytes(), meta: c.meta, index: index, offsets: c.offsets}
	c.reset()
	return done
}
