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

// rank sorts contenders by key, least first, and numbers them 1, 2=, 2=, 4: a tie is an
// equal key, × OPT to nine digits, times to six, and listed by name. A line is Near when its interval against the line
// above includes no difference (indistinct).
func rank(cs []contender) []Line {
	slices.SortFunc(cs, func(a, b contender) int {
		return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.line.Policy, b.line.Policy))
	})
	lines := make([]Line, len(cs))
	for i, c := range cs {
		first := slices.IndexFunc(cs, func(o contender) bool { return o.key == c.key })
		c.line.Rank = fmt.Sprint(first + 1)
		if first < i || i+1 < len(cs) && cs[i+1].key == c.key {
			c.line.Rank += "="
		}
		c.line.Near = i > 0 && first == i && indistinct(c.series, cs[i-1].series)
		lines[i] = c.line
	}
	return lines
}
