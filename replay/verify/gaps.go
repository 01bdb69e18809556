package verify

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Gap is a cell of which the rows have some parts only: they state the work of all
// requests, layers and heads, and some of these are left out.
type Gap struct {
	// Trace, Policy and Capacity (null without) name the cell.
	Trace    string  `json:"trace"`
	Policy   string  `json:"policy"`
	Capacity *string `json:"capacity"`
	// Lacks are the parts without a row, of the Parts that replaying gives.
	Lacks []Part `json:"lacks"`
	Parts int    `json:"parts"`
}

// gaps compares the parts that replaying gave, of each cache of which a row was drawn,
// with the rows that there are.
func (g *group) gaps(rows []result.Row, f finding) (gaps []Gap) {
	there := map[twinKey]bool{}
	for _, at := range g.all {
		there[twinKeyOf(&rows[at])] = true
	}
	looked := map[twinKey]bool{} // at the cache
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
			if !sameCache(r, t) {
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

// mostListed is how many parts a line names.
const mostListed = 8

// text says what the cell lacks, without its name.
func (g *Gap) text() string {
	var names []string
	for _, p := range g.Lacks {
		if len(names) == mostListed {
			names = append(names, "…")
			break
		}
		names = append(names, p.String())
	}
	return fmt.Sprintf("rows lack %d of %d parts: %s", len(g.Lacks), g.Parts, strings.Join(names, ", "))
}

// gapLines are a line for all cells of a trace that lack the same.
func (r *Report) gapLines() (lines []string) {
	type key struct{ trace, text string }
	cells := map[key][]string{}
	var order []key
	for i := range r.Gaps {
		g := &r.Gaps[i]
		k := key{g.Trace, g.text()}
		if cells[k] == nil {
			order = append(order, k)
		}
		cells[k] = append(cells[k], g.Policy+" at "+result.OrDash(g.Capacity))
	}
	for _, k := range order {
		names := cells[k]
		if len(names) > mostListed {
			names = append(names[:mostListed:mostListed], fmt.Sprintf("… (%d cells)", len(cells[k])))
		}
		lines = append(lines, fmt.Sprintf("%s: %s; of %s", k.trace, k.text, strings.Join(names, ", ")))
	}
	return lines
}
