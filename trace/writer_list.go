package trace

import (
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// listColumn is a list column of a Writer. The values of the open page stay in the memory
// of the stream that they come from, as long as that is there.
type listColumn[T int32 | float32] struct {
	listChunk
	wrap    func([]T) encoding.Values
	lengths []int32 // of the open page's lists, noList where there is none
	slots   int     // levels of each kind that they take
	count   int     // values that they have
	kept    []T     // the first of them, from streams before this one
	stream  []T     // the stream's values that are in no page yet
}

// newListColumn is the list column of that number.
func newListColumn[T int32 | float32](schema *parquet.Schema, number int, wrap func([]T) encoding.Values) *listColumn[T] {
	path := []string{columnNames[number], "list", "element"}
	leaf, _ := schema.Lookup(path...)
	leaf.Path = path
	c := &listColumn[T]{wrap: wrap}
	c.LeafColumn, c.levels.whole = leaf, byte(leaf.MaxDefinitionLevel)
	c.reset()
	return c
}

// begin says that the next rows are a stream whose lists stand in values, one after another.
func (c *listColumn[T]) begin(values []T) { c.stream = values }

// end keeps what the open page has of the stream, whose memory is then free.
func (c *listColumn[T]) end() { c.keep(c.count - len(c.kept)) }

func (c *listColumn[T]) keep(n int) {
	c.kept = append(c.kept, c.stream[:n]...)
	c.stream = c.stream[n:]
}

// add appends the list of a row, of which only the length counts: its values are the next of
// the stream.
func (c *listColumn[T]) add(list []T) {
	n := int32(len(list))
	if list == nil && c.MaxDefinitionLevel > 1 {
		n = noList
	}
	c.lengths = append(c.lengths, n)
	c.slots += max(int(n), 1)
	c.count += len(list)
}

// size is the number of bytes of the open page in memory, as the library counts them.
func (c *listColumn[T]) size() int { return 8*len(c.lengths) + 2*c.slots + 4*c.count }

// finish ends the row group.
func (c *listColumn[T]) finish() (columnChunk, error) {
	if err := c.flush(); err != nil {
		return columnChunk{}, err
	}
	return c.listChunk.finish(), nil
}

// flush ends the open page.
func (c *listColumn[T]) flush() error {
	if len(c.lengths) == 0 {
		return nil
	}
	values := c.stream[:c.count-len(c.kept)]
	rest := c.stream[len(values):]
	if len(c.kept) > 0 {
		c.keep(len(values))
		values = c.kept
	}
	err := c.page(c.lengths, c.wrap(values), len(values))
	c.stream, c.kept, c.lengths, c.slots, c.count = rest, c.kept[:0], c.lengths[:0], 0, 0
	return err
}
