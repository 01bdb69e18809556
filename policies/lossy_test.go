package policies

import (
	"slices"
	"testing"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		what         string
		total, least int
		weights      []int64
		most, want   []int
	}{
		{"one each, 1 1 3 of 7, 0 0 1 of 2, the last to the first", 10, 1, []int64{1, 1, 2}, []int{9, 9, 9}, []int{3, 2, 5}},
		{"what the first cannot take is divided 1 to 2", 35, 1, []int64{7, 1, 2}, []int{2, 40, 40}, []int{2, 12, 21}},
		{"least, but no more than most", 12, 4, []int64{5, 0, 1}, []int{3, 9, 9}, []int{3, 4, 5}},
		{"least goes before total", 5, 4, []int64{1, 1}, []int{2, 9}, []int{2, 4}},
		{"at least 1, even where most is 0", 4, 0, []int64{1, 1}, []int{0, 5}, []int{1, 3}},
		{"no weights: in turn, until all are full", 10, 1, []int64{0, 0}, []int{3, 1}, []int{3, 1}},
		{"a product of more than 64 bits", 8, 1, []int64{3 << 60, 1 << 60}, []int{9, 9}, []int{6, 2}},
	} {
		if got := Shares(c.total, c.least, c.weights, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		shares     []int
		rest       int
		most, want []int
	}{
		{[]int{1, 1, 1}, 2, []int{9, 9, 9}, []int{2, 2, 1}},
		{[]int{1, 2, 3}, 5, []int{2, 2, 9}, []int{2, 2, 7}},
		{[]int{1, 2}, 5, []int{3, 2}, []int{3, 2}},
	} {
		if got := Spread(slices.Clone(c.shares), c.rest, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d more to %v, most %v: %v, want %v", c.rest, c.shares, c.most, got, c.want)
		}
	}
}
