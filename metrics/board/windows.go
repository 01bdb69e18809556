package board

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// WindowLine is a policy without capacity on one trace, compared with LRU and OPT at its peak size
// (rows of capacity "peak:<policy>").
type WindowLine struct {
	Trace  string `json:"trace"`
	Policy string `json:"policy"`
	// ResidentMean and ResidentPeak are blocks of a stream after a step.
	ResidentMean float64 `json:"resident_mean"`
	ResidentPeak int64   `json:"resident_peak"`
	// Figures of the policy. XOpt, XLRU and GapClosed compare with LRU and OPT at the peak, and are
	// null if there is no such row. The gap is from LRU at the peak to OPT at the peak.
	Figures *Figures `json:"figures"`
	Remarks
}

// windows lists the policies without capacity by trace, shorter windows first.
func (g *grid) windows() []WindowLine {
	var lines []WindowLine
	for _, c := range g.list {
		if c.capacity != "" {
			continue
		}
		// A window has no capacity. It is measured at the capacity of its companions.
		at := CellRef{c.trace, result.PeakPrefix + c.policy}
		g.cells[cellKey{at.Trace, c.policy, at.Capacity}] = c
		mean := Number(c.total.residentSum / max(1, float64(c.total.steps)))
		lines = append(lines, WindowLine{
			Trace: c.trace, Policy: c.policy, ResidentMean: *mean, ResidentPeak: c.total.residentPeak,
			Figures: g.over([]CellRef{at}).measure(c.policy), Remarks: Remarks{texts: c.footnotes()},
		})
	}
	slices.SortStableFunc(lines, func(a, b WindowLine) int {
		return cmp.Or(strings.Compare(a.Trace, b.Trace), compareNatural(a.Policy, b.Policy))
	})
	return lines
}

// compareNatural orders texts with numbers by their size: window:2 before window:10, lru@1.25x
// before lru@1.5x.
func compareNatural(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	i = lastNumber.FindStringIndex(a[:i])[0]
	if x, y := leading(a[i:]), leading(b[i:]); x != "" && y != "" && x != y {
		return compareNumbers(x, y)
	}
	return strings.Compare(a[i:], b[i:])
}

// lastNumber matches the number at the end of a text, which may continue. It may be empty.
var lastNumber = regexp.MustCompile(`([0-9]+\.)?[0-9]*$`)

// leading returns the number that s begins with, empty without one.
func leading(s string) string {
	if at := numbers.FindStringIndex(s); at != nil && at[0] == 0 {
		return s[:at[1]]
	}
	return ""
}
