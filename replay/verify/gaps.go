package verify

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Gap is a cell with missing rows: its rows state the work of all requests, layers and heads, and
// some of these are missing.
type Gap struct {
	// Trace, Policy and Capacity (null without) identify the cell.
	Trace    string  `json:"trace"`
	Policy   string  `json:"policy"`
	Capacity *string `json:"capacity"`
	// Lacks are the parts without a row, among the Parts of a replay.
	Lacks []Part `json:"lacks"`
	Parts int    `json:"parts"`
}

// gaps compares the given rows with the replayed parts of each cache from which a row was drawn.
func (g *group) gaps(rows []result.Row, f finding) (gaps []Gap) {
	there := map[twinKey]bool{}
	for _, at := range g.all {
		there[twinKeyOf(&rows[at])] = true
	}
	looked := map[twinKey]bool{} // caches that were compared
	for _, at := range g.drawn {
		r := &rows[at]
		cache := twinKey{tier: r.Tier, above: r.Above}
		if looked[cache] {
			continue
		}
		looked[cache] = true
		gap := Gap{Trace: r.Trace, Policy: r.Policy, Capacity: r.Capacity}
		for i := range f.replayed {
			t := &f.replayed[i]
			if r.Tier != t.Tier || r.Above != t.Above {
				continue
			}
			gap.Parts++
			if !there[twinKeyOf(t)] {
				gap.Lacks = append(gap.Lacks, partOf(t))
			}
		}
		if gap.Lacks != nil {
			gaps = append(gaps, gap)
		}
	}
	return gaps
}

// mostListed is the largest number of parts in a line.
const mostListed = 8

func (g *Gap) text() string {
	names := slice.Map(g.Lacks[:min(len(g.Lacks), mostListed)], Part.String)
	if len(g.Lacks) > mostListed {
		names = append(names, "…")
	}
	return fmt.Sprintf("rows lack %d of %d parts: %s", len(g.Lacks), g.Parts, strings.Join(names, ", "))
}

// gapLines returns one line for all cells of a trace with the same missing parts.
func (r *Report) gapLines() (lines []string) {
	for _, alike := range slice.Group(r.Gaps, func(g *Gap) [2]string { return [2]string{g.Trace, g.text()} }) {
		names := slice.Map(alike, func(g Gap) string { return g.Policy + " at " + result.OrDash(g.Capacity) })
		if len(names) > mostListed {
			names = append(names[:mostListed], fmt.Sprintf("… (%d cells)", len(alike)))
		}
		lines = append(lines, fmt.Sprintf("%s: %s, in %s", alike[0].Trace, alike[0].text(), strings.Join(names, ", ")))
	}
	return lines
}
