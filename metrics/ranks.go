package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// contender is a line being ranked by a key, × OPT or a time, with its resamples.
type contender struct {
	line   Line
	series []float64
	key    float64
}

// rank sorts contenders by key, least first, and places them: × OPT ties at nine digits,
// times at six. The tail is that of their common cells.
func rank(cs []contender, tail float64) []Line {
	slices.SortFunc(cs, func(a, b contender) int {
		return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.line.Policy, b.line.Policy))
	})
	lines := make([]Line, len(cs))
	for i := range cs {
		lines[i] = cs[i].line
		lines[i].Rank, lines[i].Near = place(i, len(cs), tail, func(j int) (float64, []float64) { return cs[j].key, cs[j].series })
	}
	return lines
}

// place numbers the i-th of n sorted lines 1, 2=, 2=, 4: a tie is an equal key. It is near
// where its interval against the line above, of the given tail, includes no difference
// (indistinct).
func place(i, n int, tail float64, at func(int) (key float64, series []float64)) (rank string, near bool) {
	key, series := at(i)
	equal := func(j int) bool {
		other, _ := at(j)
		return other == key
	}
	first := i
	for first > 0 && equal(first-1) {
		first--
	}
	rank = fmt.Sprint(first + 1)
	if first < i || i+1 < n && equal(i+1) {
		rank += "="
	}
	if i > 0 && first == i {
		_, above := at(i - 1)
		near = indistinct(series, above, tail)
	}
	return rank, near
}
