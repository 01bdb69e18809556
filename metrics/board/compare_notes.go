package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// notes say what the figures are over, who may not be judged by misses alone, and
// what the rows warn of.
func (c *Comparison) notes(pairs []pair, unpaired []CellRef) []string {
	var notes []string
	var as, bs []*cell
	without := 0
	for _, p := range pairs {
		if !p.hasRatio() {
			without++
		}
		as, bs = append(as, p.a), append(bs, p.b)
	}
	if len(pairs) > 0 {
		notes = append(notes, requestsNote(pairs))
	}
	if without > 0 && len(pairs) > 1 {
		notes = append(notes, fmt.Sprintf("left out of the pooled ratio, as one of the two has no miss there: %s", result.Count(without, "cell")))
	}
	if len(unpaired) > 0 {
		notes = append(notes, "not compared, as only one of the two ran there: "+refsText(unpaired))
	}
	return append(notes, c.remarks(remarksOf(as), remarksOf(bs))...)
}

// remarks names whom each remark is about.
func (c *Comparison) remarks(as, bs []string) []string {
	var all []string
	for _, text := range result.Unite(as, bs) {
		who := "A and B"
		switch {
		case !slices.Contains(bs, text):
			who = c.A
		case !slices.Contains(as, text):
			who = c.B
		}
		all = append(all, who+": "+text)
	}
	return all
}

// remarksOf are what a reader must know of one side.
func remarksOf(cells []*cell) []string {
	var warnings []string
	for _, c := range cells {
		warnings = append(warnings, c.warnings...)
		if c.sample.Offline {
			warnings = append(warnings, "sees the future: a bound, not a contender")
		}
		if c.sample.Bypasses {
			warnings = append(warnings, "may keep demanded blocks out of the cache")
		}
		if c.capacity == "" {
			warnings = append(warnings, "has no capacity: the other was given its peak size")
		}
		if c.total.prefetched > 0 {
			warnings = append(warnings, "prefetches: judge misses and bytes together")
		}
	}
	merged, _ := MergeNotes(warnings)
	return merged
}

// requestsNote says how many requests each trace has, and whether they are too few for an
// interval.
func requestsNote(pairs []pair) string {
	var traces []string
	for _, p := range pairs {
		n := len(p.a.requests)
		switch {
		case p.a.requests == nil || p.b.requests == nil:
			traces = append(traces, p.at.Trace+" (rows pooled over requests: no test; replay with --per request)")
		case n < MinRequests:
			traces = append(traces, fmt.Sprintf("%s (n = %d, an interval takes %d)", p.at.Trace, n, MinRequests))
		default:
			traces = append(traces, fmt.Sprintf("%s (n = %d)", p.at.Trace, n))
		}
	}
	return "requests: " + strings.Join(result.Unite(traces, nil), ", ")
}
