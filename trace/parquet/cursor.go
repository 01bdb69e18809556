package parquet

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"unsafe"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// NullError is the error of a null inside a list.
type NullError struct {
	Column string
	Row    int // counted from the first requested row
}

// Error names the column.
func (e *NullError) Error() string { return fmt.Sprintf("column %s: a null inside a list", e.Column) }

// RowKinds describes which of the read rows are null and which have a value or a list. Rows count
// from 0, and -1 means none.
type RowKinds struct {
	Nulls      int // number of rows that are null
	FirstNull  int
	FirstValue int
	NextValue  int // first row with a value after FirstValue
}

func (k *RowKinds) add(row int, null bool) {
	switch {
	case null:
		if k.Nulls++; k.FirstNull < 0 {
			k.FirstNull = row
		}
	case k.FirstValue < 0:
		k.FirstValue = row
	case k.NextValue < 0:
		k.NextValue = row
	}
}

// Cursor reads one leaf column of a row group. Delta-encoded pages are decoded into the caller's
// memory. The library decodes pages of other encodings into the cursor's memory.
type Cursor[T int32 | float32] struct {
	pages
	// Rows describes the rows of the last call of Lists or Flat.
	Rows RowKinds

	at     int // next level of the page
	deltas deltas
	values []T // values of the page that were not taken yet, unused for delta-encoded pages
	table  []T // dictionary, or nil
}

// Open places the cursor at the first row of row group g.
func (c *Cursor[T]) Open(f *File, g int, l *Leaf) {
	c.pages.open(f, g, l)
	c.table, c.at = nil, 0
}

// Trust makes the cursor accept pages without a CRC and not call Unsummed. A caller that computes the
// digest of all values needs no CRC.
func (c *Cursor[T]) Trust() { c.trusted = true }

// next loads the next page. It returns io.EOF after the last.
func (c *Cursor[T]) next() error {
	c.at = 0
	err := c.pages.next()
	if err == nil {
		err = c.begin()
	}
	if err != nil && err != io.EOF {
		return fmt.Errorf("column %s: %w", c.leaf.Name, err)
	}
	return err
}

// begin decodes the values of the loaded page, or prepares it.
func (c *Cursor[T]) begin() (err error) {
	if c.isDelta() {
		return c.deltas.begin(c.encoded, c.present)
	}
	if !c.head.isDictionary() {
		c.values, err = decode(parquetgo.LookupEncoding(c.head.encoding()), view[T](c.buffers.values[:0]), c.encoded)
		c.buffers.values = view[int32](c.values)
		return c.cut(err)
	}
	if c.table == nil && c.dictionary != nil {
		if c.table, err = decode[T](&parquetgo.Plain, nil, c.dictionary); err != nil {
			return err
		}
	}
	codes, err := parquetgo.RLEDictionary.DecodeInt32(c.buffers.values[:0], c.encoded)
	c.buffers.values = codes
	if c.values = view[T](codes); err != nil || len(codes) < c.present {
		return c.cut(err)
	}
	codes = codes[:c.present]
	for i, code := range codes {
		if uint32(code) >= uint32(len(c.table)) {
			return fmt.Errorf("dictionary code %d, the dictionary has %d values", code, len(c.table))
		}
		view[T](codes)[i] = c.table[code]
	}
	c.values = view[T](codes)
	return nil
}

// cut drops padding values at the end of the page.
func (c *Cursor[T]) cut(err error) error {
	if err == nil && len(c.values) < c.present {
		return fmt.Errorf("levels state %d values, the page holds %d", c.present, len(c.values))
	}
	c.values = c.values[:min(len(c.values), c.present)]
	return err
}

func (c *Cursor[T]) isDelta() bool {
	_, ints := any(*new(T)).(int32)
	return ints && c.head.encoding() == format.DeltaBinaryPacked
}

// take moves the page's next values to dst.
func (c *Cursor[T]) take(dst []T) error {
	if !c.isDelta() {
		c.values = c.values[copy(dst, c.values):]
		return nil
	}
	if err := c.deltas.take(view[int32](dst)); err != nil {
		return fmt.Errorf("column %s: %w", c.leaf.Name, err)
	}
	return nil
}

// grow appends the page's next n values to dst.
func (c *Cursor[T]) grow(dst []T, n int) ([]T, error) {
	dst = slices.Grow(dst, n)[:len(dst)+n]
	return dst, c.take(dst[len(dst)-n:])
}

// view returns values of 4 bytes as another type in the same memory.
func view[To, From int32 | float32](values []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(values))), cap(values))[:len(values)]
}

// decode decodes values into dst, or into new memory if dst is too small.
func decode[T int32 | float32](e encoding.Encoding, dst []T, src []byte) ([]T, error) {
	if _, ints := any(*new(T)).(int32); ints {
		out, err := e.DecodeInt32(view[int32](dst), src)
		return view[T](out), err
	}
	out, err := e.DecodeFloat(view[float32](dst), src)
	return view[T](out), err
}

// Lists appends the next n rows of a list column to dst and the end of each to offsets. A null and
// an empty list add no values. More than most values are an error, because ends are int32.
func (c *Cursor[T]) Lists(n, most int, dst []T, offsets []int32) (_ []T, _ []int32, err error) {
	rows, open, values := 0, false, len(dst) // values counts up to the level at c.at
	c.Rows = RowKinds{0, -1, -1, -1}
	for {
		if c.at == c.levels {
			if dst, err = c.grow(dst, values-len(dst)); err != nil {
				return dst, offsets, err
			}
			if open && c.head.DataPageHeaderV2.Valid { // rows end with their page
				open, rows = false, rows+1
				if offsets, err = c.endRow(offsets, values, most, rows); err != nil || rows == n {
					return dst, offsets, err
				}
			}
			if err = c.next(); err == nil {
				continue
			}
			if err == io.EOF && open {
				rows++
				offsets, err = c.endRow(offsets, values, most, rows)
			}
			if (err == nil || err == io.EOF) && rows != n {
				err = fmt.Errorf("column %s: %d rows left, expected %d", c.leaf.Name, rows, n)
			}
			return dst, offsets, err
		}
		if c.rep[c.at] == 0 {
			if open {
				rows++
				if offsets, err = c.endRow(offsets, values, most, rows); err != nil {
					return dst, offsets, err
				}
				if rows == n {
					dst, err = c.grow(dst, values-len(dst))
					return dst, offsets, err
				}
			}
			open = true
			c.Rows.add(rows, c.leaf.maxDef > 0 && c.def[c.at] < c.leaf.listDef)
		} else if !open {
			return dst, offsets, fmt.Errorf("column %s: a row begins inside a list", c.leaf.Name)
		}
		end := c.rowEnd()
		if c.present == c.levels { // no value in this page is null or empty
			values += end - c.at
		} else {
			def := c.def[c.at:end]
			if inside := c.leaf.listDef + 1; inside != c.leaf.maxDef && bytes.IndexByte(def, inside) >= 0 {
				return dst, offsets, &NullError{c.leaf.Name, rows}
			}
			values += bytes.Count(def, []byte{c.leaf.maxDef})
		}
		c.at = end
	}
}

// rowEnd returns the level after the row at c.at in this page.
func (c *Cursor[T]) rowEnd() int {
	if k := bytes.IndexByte(c.rep[c.at+1:], 0); k >= 0 {
		return c.at + 1 + k
	}
	return c.levels
}

// endRow appends the end of the last of several rows.
func (c *Cursor[T]) endRow(offsets []int32, values, most, rows int) ([]int32, error) {
	if values > most {
		return offsets, fmt.Errorf("column %s: the first %d rows of the stream have %d values, expected at most %d per stream. Split it into several requests", c.leaf.Name, rows, values, most)
	}
	return append(offsets, int32(values)), nil
}

// Flat appends the next n values of a flat column to dst. It appends null for null values.
func (c *Cursor[T]) Flat(n int, dst []T, null T) (_ []T, err error) {
	c.Rows = RowKinds{0, -1, -1, -1}
	for row := 0; row < n; {
		if c.at == c.levels {
			if err := c.next(); err == io.EOF {
				return dst, fmt.Errorf("column %s: %d rows missing", c.leaf.Name, n-row)
			} else if err != nil {
				return dst, err
			}
			continue
		}
		k := min(n-row, c.levels-c.at)
		if c.present == c.levels {
			c.Rows.add(row, false)
			if dst, err = c.grow(dst, k); err != nil {
				return dst, err
			}
		} else {
			for _, d := range c.def[c.at : c.at+k] {
				c.Rows.add(row, d != c.leaf.maxDef)
				row++
				if d != c.leaf.maxDef {
					dst = append(dst, null)
				} else if dst, err = c.grow(dst, 1); err != nil {
					return dst, err
				}
			}
			row -= k
		}
		row, c.at = row+k, c.at+k
	}
	return dst, nil
}

// End returns an error if the column has rows left.
func (c *Cursor[T]) End() error {
	for c.at == c.levels {
		if err := c.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("column %s: more rows than the row group states", c.leaf.Name)
}

// SeekRow places the cursor at a row of its row group. If page headers state their numbers of rows,
// it reads only headers before the row's page. Otherwise it decodes all earlier pages.
func (c *Cursor[T]) SeekRow(row int64) error {
	c.at = 0
	before, err := c.pages.seek(row)
	for err == nil {
		switch {
		case c.at == c.levels:
			err = c.next()
		case c.leaf.List && c.rep[c.at] != 0: // the rest of a row
			err = c.skip(c.rowEnd())
		case before == 0:
			return nil
		case c.leaf.List:
			before--
			err = c.skip(c.rowEnd())
		default:
			k := min(before, int64(c.levels-c.at))
			before -= k
			err = c.skip(c.at + int(k))
		}
	}
	if err == io.EOF {
		return fmt.Errorf("column %s: no row %d", c.leaf.Name, row)
	}
	return err
}

// skip skips the page's levels up to end, and their values.
func (c *Cursor[T]) skip(end int) error {
	n := end - c.at
	if c.present < c.levels {
		n = bytes.Count(c.def[c.at:end], []byte{c.leaf.maxDef})
	}
	c.at = end
	var values [4 * groupValues]T
	for ; n > 0; n -= min(n, len(values)) {
		if err := c.take(values[:min(n, len(values))]); err != nil {
			return err
		}
	}
	return nil
}

// Strings appends the n values of a flat string column of row group g to dst. Equal neighbours
// share one string. With trust, pages need no CRC, as after Trust.
func (f *File) Strings(g int, l *Leaf, n int, dst []string, trust bool) (_ []string, err error) {
	var p pages
	p.open(f, g, l)
	p.trusted = trust
	defer p.Close()
	last := ""
	var text []byte
	var ends []uint32
	value := func(i int) {
		if b := text[ends[i]:ends[i+1]]; string(b) != last {
			last = string(b)
		}
		dst = append(dst, last)
	}
	for n += len(dst); err == nil; {
		if err = p.next(); err != nil {
			break
		}
		if p.present < p.levels {
			return dst, fmt.Errorf("column %s: a null value, expected a string in every row", l.Name)
		}
		if !p.head.isDictionary() {
			text, ends, err = parquetgo.LookupEncoding(p.head.encoding()).DecodeByteArray(text, p.encoded, ends)
			for i := 0; err == nil && i < min(p.levels, len(ends)-1); i++ {
				value(i)
			}
			continue
		}
		if text, ends, err = parquetgo.Plain.DecodeByteArray(text, p.dictionary, ends); err != nil {
			break
		}
		codes, err := parquetgo.RLEDictionary.DecodeInt32(p.buffers.values[:0], p.encoded)
		if err != nil {
			return dst, fmt.Errorf("column %s: %w", l.Name, err)
		}
		p.buffers.values = codes
		for _, code := range codes[:min(p.levels, len(codes))] {
			if int(code) < 0 || int(code) >= len(ends)-1 {
				return dst, fmt.Errorf("column %s: dictionary code %d, the dictionary has %d values", l.Name, code, len(ends)-1)
			}
			value(int(code))
		}
	}
	if err != io.EOF {
		return dst, fmt.Errorf("column %s: %w", l.Name, err)
	}
	if len(dst) != n {
		return dst, fmt.Errorf("column %s: %d rows, expected %d", l.Name, len(dst), n)
	}
	return dst, nil
}

// FirstPresent reports whether the first row of a column in row group g has a value.
func (f *File) FirstPresent(g int, l *Leaf) (bool, error) {
	var p pages
	p.open(f, g, l)
	defer p.Close()
	if err := p.next(); err != nil {
		return false, fmt.Errorf("column %s: %w", l.Name, err)
	}
	least := l.maxDef
	if l.List {
		least = l.listDef
	}
	return least == 0 || p.levels > 0 && p.def[0] >= least, nil
}
