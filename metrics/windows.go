package metrics

import (
	"cmp"
	"slices"
	"strings"
)

// WindowLine is a policy without capacity on one trace, against LRU and OPT given its
// peak size (rows of capacity "peak:<policy>").
type WindowLine struct {
	Trace  string `json:"trace"`
	Policy string `json:"policy"`
	// ResidentMean and ResidentPeak are blocks of a stream after a step.
	ResidentMean float64 `json:"resident_mean"`
	ResidentPeak int64   `json:"resident_peak"`
	// Figures of the policy; XOpt, XLRU and GapClosed are against the companions, null
	// where there is no such row. The gap is from LRU at the peak to OPT at the peak.
	Figures *Figures `json:"figures"`
	Notes   []int    `json:"notes"`

	texts []string
}

// windows lists the policies without capacity by trace, shorter windows first.
func (g *grid) windows() []WindowLine {
	var lines []WindowLine
	for _, c := range g.list {
		if c.capacity == "" {
			lines = append(lines, g.window(c))
		}
	}
	slices.SortStableFunc(lines, func(a, b WindowLine) int {
		return cmp.Or(strings.Compare(a.Trace, b.Trace), compareNatural(a.Policy, b.Policy))
	})
	return lines
}

func (g *grid) window(c *cell) WindowLine {
	// The companions stand at another capacity than the window, which has none: for
	// measuring, the window is taken to stand there too.
	at := CellRef{c.trace, peakPrefix + c.policy}
	g.cells[cellKey{at.Trace, c.policy, at.Capacity}] = c
	mean := number(c.total.residentSum / max(1, float64(c.total.steps)))
	return WindowLine{
		Trace: c.trace, Policy: c.policy, ResidentMean: *mean, ResidentPeak: c.total.residentPeak,
		Figures: g.measure(c.policy, []CellRef{at}).figures, texts: c.footnotes(),
	}
}

// compareNatural orders texts with numbers by their size: window:2 before window:10.
func compareNatural(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	for i > 0 && isDigit(a[i-1]) {
		i--
	}
	na, nb := digits(a[i:]), digits(b[i:])
	if na > 0 && nb > 0 && na != nb {
		return cmp.Compare(na, nb)
	}
	return strings.Compare(a[i:], b[i:])
}

// digits counts the digits at the start.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
