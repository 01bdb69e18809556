package trace

import (
	"bytes"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// nullError breaks RuleList; the cursor's other errors break RuleFile.
type nullError struct {
	column string
	row    int // of those that were asked for
}

// Error names the column; the row is told by whoever asked.
func (e *nullError) Error() string { return fmt.Sprintf("column %s: a null inside a list", e.column) }

// rowKinds says which of the rows that a cursor was asked for have a value, an empty list
// included, and which are null. They are counted from 0, -1 is none.
type rowKinds struct {
	nulls      int // number of rows that are null
	firstNull  int
	firstValue int
	nextValue  int // the one after the first
}

func (k *rowKinds) reset() { *k = rowKinds{0, -1, -1, -1} }

func (k *rowKinds) add(row int, null bool) {
	switch {
	case null:
		if k.nulls++; k.firstNull < 0 {
			k.firstNull = row
		}
	case k.firstValue < 0:
		k.firstValue = row
	case k.nextValue < 0:
		k.nextValue = row
	}
}

// cursor reads one leaf column of a row group, page by page. The page's own typed
// data is used (decoding value by value is some 30 times slower); dictionary pages,
// which other writers choose by default, are looked up.
type cursor[T int32 | float32] struct {
	leaf   leaf
	pages  parquet.Pages
	page   parquet.Page
	values []T    // of the current page; nulls have none
	rep    []byte // repetition levels of the current page; nil for flat columns
	def    []byte // definition levels; nil where nothing can be null
	at     int    // next level
	value  int    // next value
	levels int    // number of levels in the page
	table  []T    // values of the dictionary, if the page has one
	looked []T    // values looked up in it
	kinds  rowKinds
	placed bool // the offset index of this chunk was checked
	blind  bool // and cannot be used: pages are skipped one by one
}

// leaf describes a leaf column of the file's schema.
type leaf struct {
	index   int // in the row group's column chunks; -1 where the file lacks the column
	name    string
	maxDef  byte
	listDef byte // definition level from which a list is present, even if empty
	list    bool
	foreign bool // of a file of any columns, whose footer need not list every encoding
}

func (c *cursor[T]) open(f *File, g int) {
	c.close()
	c.pages = f.parquet.RowGroups()[g].ColumnChunks()[c.leaf.index].Pages()
	c.placed, c.blind = false, false
}

func (c *cursor[T]) close() {
	c.drop()
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

func (c *cursor[T]) drop() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	c.values, c.rep, c.def, c.at, c.value, c.levels = nil, nil, nil, 0, 0, 0
}

// seek goes to a row of row group g, through the offset index where it holds up;
// without it the library decodes and skips pages from the chunk's start.
func (c *cursor[T]) seek(f *File, g int, row int64) error {
	c.drop()
	if !c.placed {
		err := f.checkOffsetIndex(g, c.leaf)
		if err != nil && err != errNoIndex {
			return err
		}
		c.placed, c.blind = true, err != nil
	}
	if c.blind {
		c.open(f, g)
		c.placed, c.blind = true, true
	}
	return c.pages.SeekToRow(row)
}

// next loads the next page; io.EOF after the last.
func (c *cursor[T]) next() error {
	c.drop()
	page, err := c.pages.ReadPage()
	if err != nil {
		if err == io.EOF {
			return io.EOF
		}
		return fmt.Errorf("column %s: %w", c.leaf.name, err)
	}
	c.page = page
	data := page.Data()
	c.rep, c.def = page.RepetitionLevels(), page.DefinitionLevels()
	if dict := page.Dictionary(); dict != nil {
		table := dict.Page().Data()
		codes := data.Int32()
		c.table, c.looked = append(c.table[:0], typed[T](&table)...), c.looked[:0]
		for _, code := range codes {
			if uint32(code) >= uint32(len(c.table)) {
				return fmt.Errorf("column %s: dictionary code %d, the dictionary has %d values", c.leaf.name, code, len(c.table))
			}
			c.looked = append(c.looked, c.table[code])
		}
		c.values = c.looked
	} else {
		c.values = typed[T](&data)
	}
	c.levels = int(page.NumValues())
	if c.rep == nil && c.def == nil && c.levels != len(c.values) {
		return fmt.Errorf("column %s: page of %d values holds %d", c.leaf.name, c.levels, len(c.values))
	}
	if c.rep != nil && len(c.rep) != c.levels || c.def != nil && len(c.def) != c.levels {
		return fmt.Errorf("column %s: page of %d values has %d repetition and %d definition levels", c.leaf.name, c.levels, len(c.rep), len(c.def))
	}
	present := c.levels
	if c.def != nil {
		present = bytes.Count(c.def, []byte{c.leaf.maxDef})
	}
	if present != len(c.values) {
		return fmt.Errorf("column %s: levels announce %d values, the page holds %d", c.leaf.name, present, len(c.values))
	}
	return nil
}
