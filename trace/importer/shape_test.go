package importer

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// packInts returns the bytes that a server encodes in base64.
func packInts(values ...int32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// grid makes rows of layers × topk. Each list holds all positions so far, then padding.
func grid(rows, layers, topk int) []byte {
	var values []int32
	for p := range rows {
		for range layers {
			for k := range topk {
				if k <= p {
					values = append(values, int32(p-k))
				} else {
					values = append(values, -1)
				}
			}
		}
	}
	return packInts(values...)
}

// widened returns an int32 array as int64.
func widened(b []byte) (wide []byte) {
	for i := range len(b) / 4 {
		wide = binary.LittleEndian.AppendUint64(wide, uint64(int64(int32At(b, i))))
	}
	return wide
}

func TestFindShape(t *testing.T) {
	ambiguous := bytes.Repeat(packInts(5), 6*7*5) // 6 and 7 rows fit, and the values do not decide
	for _, c := range []struct {
		name                             string
		b                                []byte
		prompt, completion, layers, topk int
		want                             shape
		fails                            string
	}{
		{"derived, one row less", grid(9, 3, 4), 7, 3, 0, 0, shape{9, 3, 4, true}, ""},
		{"derived, all rows", grid(10, 3, 4), 7, 3, 0, 0, shape{10, 3, 4, true}, ""},
		{"one layer", grid(9, 1, 4), 7, 3, 0, 0, shape{9, 1, 4, true}, ""},
		{"layers stated", grid(9, 3, 4), 7, 3, 3, 0, shape{9, 3, 4, false}, ""},
		{"topk stated", grid(9, 3, 4), 7, 3, 0, 4, shape{9, 3, 4, false}, ""},
		{"no completion", grid(7, 3, 4), 7, 0, 0, 0, shape{7, 3, 4, true}, ""},
		{"denied by the data", grid(9, 3, 4), 7, 3, 6, 0, shape{}, "3 layers × index_topk 4"},
		{"two fit", ambiguous, 5, 2, 0, 5, shape{}, "state both"},
		{"both decide", ambiguous, 5, 2, 7, 5, shape{6, 7, 5, false}, ""},
		{"nothing to read", packInts(make([]int32, 9*12)...), 7, 3, 0, 0, shape{9, 12, 1, true}, ""},
		{"row 0 unlike", packInts(append([]int32{5}, make([]int32, 9*12-1)...)...), 7, 3, 0, 0, shape{}, "state --layers"},
		{"no rows fit", grid(4, 3, 4), 7, 3, 3, 4, shape{}, "9 or 10 rows"},
		{"cut short", grid(9, 3, 4)[:4*100+4], 7, 3, 0, 0, shape{}, "cut off"},
		{"empty", nil, 7, 3, 0, 0, shape{}, "cut off"},
		{"wrong layers", grid(9, 3, 4), 7, 3, 5, 0, shape{}, "--layers 5"},
		{"int64", widened(grid(9, 3, 4)), 7, 3, 0, 0, shape{}, "216 values as int32, but every second one pads an int64"},
		{"int64, layers stated", widened(grid(9, 3, 4)), 7, 3, 3, 0, shape{}, "write the array as int32"},
		{"one token at a time", packInts(0, 0, 2, 0, 4, 0, 6, 0, 8), 7, 3, 1, 1, shape{9, 1, 1, false}, ""},
		{"one token at a time, even", packInts(0, 0, 2, 0, 4, 0, 6, 0), 6, 3, 1, 1, shape{8, 1, 1, false}, ""},
		{"row 0 unlike", packInts(append([]int32{5}, make([]int32, 9*12-1)...)...), 7, 3, 0, 0, shape{}, "row 0 lists 5, expected token 0"},
		{"not from the start on", grid(12, 3, 4)[4*36:], 7, 3, 0, 0, shape{}, "row 0 lists 3, expected token 0"},
		{"never full", packInts(0, -1, -1, -1, 1, 0, -1, -1), 2, 1, 0, 0, shape{}, "state --layers"},
		{"a layer empty at first", packInts(0, -1, -1, -1, 1, 0, 0, -1, 2, 1, 2, 0, 3, 2, 3, 2), 3, 2, 0, 0, shape{}, "state --layers"},
	} {
		got, err := findShape(c.b, c.prompt, c.completion, c.layers, c.topk)
		switch {
		case c.fails == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %+v, %v, want an error with %q", c.name, got, err, c.fails)
		}
	}
}

// A query selects all positions up to its own, or topk of them.
func TestWholeSelections(t *testing.T) {
	s := shape{topk: 3}
	for _, c := range []struct {
		list     []int32
		position int
		fails    string
	}{
		{[]int32{0, -1, -1}, 0, ""},
		{[]int32{1, 0, -1}, 1, ""},
		{[]int32{4, 0, 9}, 9, ""},
		{[]int32{-1, -1, -1}, 0, "0 tokens up to -1, expected 1 up to 0"},
		{[]int32{0, 1, 2}, 1, "3 tokens up to 2, expected 2 up to 1"},
		{[]int32{17, -1, -1}, 0, "SGLANG_DSA_FUSE_TOPK=0"},
		{[]int32{4, 0, 10}, 9, "3 tokens up to 10, expected 3 up to 9"},
		{[]int32{4, 0, -1}, 9, "--windows 0"},
	} {
		if err := s.whole(c.list, c.position); (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%v at position %d: %v, expected %q", c.list, c.position, err, c.fails)
		}
	}
}
