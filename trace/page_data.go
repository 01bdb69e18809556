package trace

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// typed returns a page's values as T without copying them.
func typed[T int32 | float32](v *encoding.Values) []T {
	var out any
	switch any(*new(T)).(type) {
	case int32:
		out = v.Int32()
	case float32:
		out = v.Float()
	}
	return out.([]T)
}

// readStrings appends the n values of a flat string column to dst; equal neighbours
// share one string.
func readStrings(group parquet.RowGroup, l leaf, n int, dst []string) (_ []string, err error) {
	pages := group.ColumnChunks()[l.index].Pages()
	defer pages.Close()
	last := ""
	intern := func(b []byte) string {
		if string(b) != last {
			last = string(b)
		}
		return last
	}
	for start := len(dst); ; {
		page, err := pages.ReadPage()
		if err == io.EOF {
			if len(dst)-start != n {
				return dst, fmt.Errorf("column %s: %d rows, expected %d", l.name, len(dst)-start, n)
			}
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("column %s: %w", l.name, err)
		}
		if page.NumNulls() > 0 {
			return dst, fmt.Errorf("column %s: a null value, expected a string in every row", l.name)
		}
		data := page.Data()
		if dict := page.Dictionary(); dict != nil {
			for _, code := range data.Int32() {
				if int(code) < 0 || int(code) >= dict.Len() {
					return dst, fmt.Errorf("column %s: dictionary code %d, the dictionary has %d values", l.name, code, dict.Len())
				}
				dst = append(dst, intern(dict.Index(code).ByteArray()))
			}
		} else {
			bytes, offsets := data.ByteArray()
			for i := 0; i+1 < len(offsets); i++ {
				dst = append(dst, intern(bytes[offsets[i]:offsets[i+1]]))
			}
		}
		parquet.Release(page)
	}
}

// guard runs f and turns a panic of the Parquet decoder, which corrupt pages can
// cause, into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("corrupt data: %v", p)
		}
	}()
	return f()
}
