package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// contender is a line being ranked by a key, × OPT or a time.
type contender struct {
	line Line
	key  float64
}

// rank sorts contenders by key, least first, and numbers them. Keys are rounded, × OPT to
// nine digits and times to six, so that equal figures tie.
func rank(cs []contender) []Line {
	slices.SortFunc(cs, func(a, b contender) int {
		return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.line.Policy, b.line.Policy))
	})
	lines := make([]Line, len(cs))
	for i := range cs {
		lines[i] = cs[i].line
		lines[i].Rank = place(i, len(cs), func(j int) float64 { return cs[j].key })
	}
	return lines
}

// place is the rank of the i-th of n sorted lines: 1, 2=, 2=, 4. Lines with equal keys tie.
func place(i, n int, key func(int) float64) string {
	first := i
	for first > 0 && key(first-1) == key(i) {
		first--
	}
	rank := fmt.Sprint(first + 1)
	if first < i || i+1 < n && key(i+1) == key(i) {
		rank += "="
	}
	return rank
}
