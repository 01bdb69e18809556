package trace

import (
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// listColumn is the column buffer of a list column's values in a Writer. The library
// gives a buffer the values of a row at a time and copies them; this one only counts
// them, and makes its pages of the memory of the streams that the rows come from. The
// levels around the values, the pages' ends and their encoding are the library's.
type listColumn[T int32 | float32] struct {
	parquet.ColumnBuffer // counts the values of the open page, and holds none
	typ                  parquet.Type
	index                int
	values               func([]T) encoding.Values
	kept                 []T // first values of the open page, from streams before this one
	stream               []T // the stream's values that are in no page yet
}

// begin says that the next rows are a stream whose lists stand in values, one after another.
func (c *listColumn[T]) begin(values []T) { c.stream = values }

// end keeps what the open page has of the stream, whose memory is then free.
func (c *listColumn[T]) end() { c.keep(len(c.stream)) }

func (c *listColumn[T]) keep(n int) {
	c.kept = append(c.kept, c.stream[:n]...)
	c.stream = c.stream[n:]
}

// Size is the number of bytes in the open page: at a certain size the library ends it.
func (c *listColumn[T]) Size() int64 { return 4 * c.NumValues() }

// Page is the open page. Where it began in this stream it is a part of the stream.
func (c *listColumn[T]) Page() parquet.Page {
	n := int(c.NumValues())
	page := c.stream[:max(n-len(c.kept), 0)]
	if len(c.kept) > 0 {
		c.keep(len(page))
		page = c.kept
	}
	return c.typ.NewPage(c.index, n, c.values(page))
}

// Reset opens the next page.
func (c *listColumn[T]) Reset() {
	c.stream = c.stream[int(c.NumValues())-len(c.kept):]
	c.kept = c.kept[:0]
	c.ColumnBuffer.Reset()
}

// listType is the type of a list column's values, with the column as its buffer.
type listType[T int32 | float32] struct {
	parquet.Type
	column *listColumn[T]
}

// NewColumnBuffer is called once a Writer.
func (t listType[T]) NewColumnBuffer(index, _ int) parquet.ColumnBuffer {
	t.column.ColumnBuffer = parquet.NullType.NewColumnBuffer(index, 0)
	t.column.typ, t.column.index = t.Type, index
	return t.column
}
