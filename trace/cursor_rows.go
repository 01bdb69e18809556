package trace

import (
	"bytes"
	"fmt"
	"io"
)

// lists appends the next n rows of a list column to dst and the end of each to
// offsets. nulls counts rows whose list is null; an empty list adds nothing.
func (c *cursor[T]) lists(n int, dst []T, offsets []int32) (_ []T, _ []int32, nulls int, err error) {
	rows, open := 0, false
	for {
		if c.at == c.levels {
			if err := c.next(); err == io.EOF {
				if open {
					offsets = append(offsets, int32(len(dst)))
					rows++
				}
				break
			} else if err != nil {
				return dst, offsets, nulls, err
			}
			continue
		}
		if c.rep == nil {
			return dst, offsets, nulls, fmt.Errorf("column %s: a page without repetition levels, expected lists", c.leaf.name)
		}
		if c.rep[c.at] == 0 {
			if open {
				offsets = append(offsets, int32(len(dst)))
				if rows++; rows == n {
					return dst, offsets, nulls, nil
				}
			}
			open = true
		} else if !open {
			return dst, offsets, nulls, fmt.Errorf("column %s: a row begins inside a list", c.leaf.name)
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
			case d < c.leaf.listDef:
				nulls++
			case d == c.leaf.listDef: // an empty list
			default:
				return dst, offsets, nulls, fmt.Errorf("column %s: %w", c.leaf.name, errNull)
			}
		}
	}
	if rows != n {
		return dst, offsets, nulls, fmt.Errorf("column %s: %d rows left, expected %d", c.leaf.name, rows, n)
	}
	return dst, offsets, nulls, nil
}

// flat appends the next n values of a flat column to dst, null where a value is null.
func (c *cursor[T]) flat(n int, dst []T, null T) (_ []T, nulls int, err error) {
	for want := len(dst) + n; len(dst) < want; {
		if c.at == c.levels {
			if err := c.next(); err == io.EOF {
				return dst, nulls, fmt.Errorf("column %s: %d rows missing", c.leaf.name, want-len(dst))
			} else if err != nil {
				return dst, nulls, err
			}
			continue
		}
		k := min(want-len(dst), c.levels-c.at)
		if len(c.values) == c.levels {
			dst = append(dst, c.values[c.at:c.at+k]...)
			c.at, c.value = c.at+k, c.value+k
			continue
		}
		for end := c.at + k; c.at < end; c.at++ {
			if c.def[c.at] == c.leaf.maxDef {
				dst = append(dst, c.values[c.value])
				c.value++
			} else {
				dst = append(dst, null)
				nulls++
			}
		}
	}
	return dst, nulls, nil
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
