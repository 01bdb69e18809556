package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// mostValues is the most that the lists of a stream may hold together: their ends are int32.
// Tests have less.
var mostValues = math.MaxInt32

// lists appends the next n rows of a list column to dst and the end of each to offsets. A
// null and an empty list add nothing; c.kinds tells which rows are null.
func (c *cursor[T]) lists(n int, dst []T, offsets []int32) (_ []T, _ []int32, err error) {
	rows, open := 0, false
	c.kinds.reset()
	for {
		if c.at == c.levels {
			if err := c.next(); err == io.EOF {
				if open {
					if offsets, err = c.endRow(offsets, len(dst), rows); err != nil {
						return dst, offsets, err
					}
					rows++
				}
				break
			} else if err != nil {
				return dst, offsets, err
			}
			continue
		}
		if c.rep == nil {
			return dst, offsets, fmt.Errorf("column %s: a page without repetition levels, expected lists", c.leaf.name)
		}
		if c.rep[c.at] == 0 {
			if open {
				if offsets, err = c.endRow(offsets, len(dst), rows); err != nil {
					return dst, offsets, err
				}
				if rows++; rows == n {
					return dst, offsets, nil
				}
			}
			open = true
			c.kinds.add(rows, c.def != nil && c.def[c.at] < c.leaf.listDef)
		} else if !open {
			return dst, offsets, fmt.Errorf("column %s: a row begins inside a list", c.leaf.name)
		}
		end := c.levels
		if k := bytes.IndexByte(c.rep[c.at+1:], 0); k >= 0 {
			end = c.at + 1 + k
		}
		if len(c.values) == c.levels { // nothing null or empty in this page
			dst = append(dst, c.values[c.at:end]...)
			c.value += end - c.at
			c.at = end
			continue
		}
		for ; c.at < end; c.at++ {
			switch d := c.def[c.at]; {
			case d == c.leaf.maxDef:
				dst = append(dst, c.values[c.value])
				c.value++
			case d <= c.leaf.listDef: // null, or an empty list
			default:
				return dst, offsets, &nullError{c.leaf.name, rows}
			}
		}
	}
	if rows != n {
		return dst, offsets, fmt.Errorf("column %s: %d rows left, expected %d", c.leaf.name, rows, n)
	}
	return dst, offsets, nil
}

// endRow appends the end of a row, the values by then.
func (c *cursor[T]) endRow(offsets []int32, values, row int) ([]int32, error) {
	if values > mostValues {
		return offsets, fmt.Errorf("column %s: the first %d rows of the stream have %d values, expected at most %d in a stream; make several requests of it", c.leaf.name, row+1, values, mostValues)
	}
	return append(offsets, int32(values)), nil
}

// flat appends the next n values of a flat column to dst, null where a value is null;
// c.kinds tells where.
func (c *cursor[T]) flat(n int, dst []T, null T) (_ []T, err error) {
	from := len(dst)
	c.kinds.reset()
	for want := from + n; len(dst) < want; {
		if c.at == c.levels {
			if err := c.next(); err == io.EOF {
				return dst, fmt.Errorf("column %s: %d rows missing", c.leaf.name, want-len(dst))
			} else if err != nil {
				return dst, err
			}
			continue
		}
		k := min(want-len(dst), c.levels-c.at)
		if len(c.values) == c.levels {
			c.kinds.add(len(dst)-from, false)
			dst = append(dst, c.values[c.at:c.at+k]...)
			c.at, c.value = c.at+k, c.value+k
			continue
		}
		for end := c.at + k; c.at < end; c.at++ {
			there := c.def[c.at] == c.leaf.maxDef
			c.kinds.add(len(dst)-from, !there)
			if !there {
				dst = append(dst, null)
				continue
			}
			dst = append(dst, c.values[c.value])
			c.value++
		}
	}
	return dst, nil
}

// ended returns an error if the column has rows left.
func (c *cursor[T]) ended() error {
	for c.at == c.levels {
		if err := c.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	return fmt.Errorf("column %s: more rows than the row group announces", c.leaf.name)
}
