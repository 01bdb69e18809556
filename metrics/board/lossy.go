package board

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// LossyTable ranks the lossy policies by what they had of the demand, at equal budgets.
// They are never ranked with exact ones, which have all of it (SEMANTICS S10).
type LossyTable struct {
	// Capacities are the budgets as asked for, ascending.
	Capacities []string `json:"capacities"`
	// Common are the cells that all ranked policies have: pooled figures are over them.
	Common []CellRef `json:"common"`
	// Ranked are the policies, best first. Unranked are those that lack a common cell, and
	// all of them if fewer than two can be ranked.
	Ranked   []LossyLine `json:"ranked"`
	Unranked []LossyLine `json:"unranked"`
	// Pairs are the tests of all pairs of Ranked; none if the requests are too few.
	Pairs []PairTest `json:"pairs"`
	// Cells are all figures by trace and capacity, in that order.
	Cells []LossyCell `json:"cells"`
	// Notes say what the figures are over.
	Notes []string `json:"notes"`

	alone string // the only policy that could be ranked
}

// LossyLine is a lossy policy's line.
type LossyLine struct {
	// Rank is "1", or "2=" in a tie; empty for unranked policies.
	Rank string `json:"rank"`
	// Letters are the groups of the policy, as in Line.
	Letters string `json:"letters"`
	Policy  string `json:"policy"`
	// Pooled is over LossyTable.Common, Capacities over those of each capacity; null where
	// the policy lacks one of the cells.
	Pooled     *LossyFigures   `json:"pooled"`
	Capacities []*LossyFigures `json:"capacities"`
	// Notes are numbers of footnotes.
	Notes []int `json:"notes"`

	texts []string
}

// LossyCell is a lossy policy at one trace and capacity.
type LossyCell struct {
	CellRef
	Policy  string        `json:"policy"`
	Figures *LossyFigures `json:"figures"`
	Notes   []int         `json:"notes"`

	texts []string
}

// LossyFigures are what a lossy policy had over some cells, sums over which are pooled.
type LossyFigures struct {
	// Cells is the number of (trace, capacity) cells.
	Cells int `json:"cells"`
	// Recall is 1 − lost ÷ demand.
	Recall *Figure `json:"recall"`
	// MassKept is the share of the recorded attention mass that the policy had: of what the
	// traces' lists cover. Of all attention it had MassLeast at least and MassMost at most,
	// as CoveredMass of it is recorded. Null where a trace says nothing of masses.
	MassKept    *float64 `json:"mass_kept"`
	MassLeast   *float64 `json:"mass_least"`
	MassMost    *float64 `json:"mass_most"`
	CoveredMass *float64 `json:"covered_mass"`
	// ResidentMean is blocks of a stream after a step: what the budget was used for.
	ResidentMean float64 `json:"resident_mean"`
	// Lost and Demand are blocks, Steps stream-steps.
	Lost   int64 `json:"lost"`
	Demand int64 `json:"demand"`
	Steps  int64 `json:"steps"`
}

// lossyTable ranks the lossy policies; nil without rows of any.
func (g *grid) lossyTable() *LossyTable {
	var all []string
	t := new(LossyTable)
	for _, c := range g.list {
		if c.sample.Lossy {
			all = append(all, c.policy)
			t.Capacities = append(t.Capacities, c.capacity)
			t.Cells = append(t.Cells, LossyCell{CellRef: c.ref(), Policy: c.policy, Figures: g.lossyFigures(c.policy, []CellRef{c.ref()}), texts: c.footnotes()})
		}
	}
	if all == nil {
		return nil
	}
	t.Capacities = result.SortCapacities(t.Capacities)
	slices.SortStableFunc(t.Cells, func(a, b LossyCell) int { return compareRefs(a.CellRef, b.CellRef) })
	var ranked, unranked []string
	t.Common, ranked, unranked = commonCells(result.Unite(all, nil), g.cellsOf)
	who := newCoverage(result.Unite(all, nil), g.cellsOf, t.Common, ranked)
	for _, p := range ranked {
		line := g.lossyLine(p, t)
		if who.takes(p) {
			line.texts = result.Unite(line.texts, []string{takesNote})
		}
		t.Ranked = append(t.Ranked, line)
	}
	for _, p := range unranked {
		t.Unranked = append(t.Unranked, g.lossyLine(p, t))
	}
	if len(t.Ranked) == 1 { // a rank is a place among others
		t.alone = t.Ranked[0].Policy
		t.Ranked, t.Unranked = nil, append(t.Ranked, t.Unranked...)
	}
	rankLossy(t.Ranked)
	letterNotes := g.addLossyLetters(t)
	t.Notes = append(g.lossyNotes(t, who), letterNotes...)
	return t
}

// addLossyLetters distinguishes the ranked policies by their recall: by the blocks that
// they lost, as all have one demand. It returns notes.
func (g *grid) addLossyLetters(t *LossyTable) (notes []string) {
	names := make([]string, len(t.Ranked))
	for i, l := range t.Ranked {
		names[i] = l.Policy
	}
	var letters []string
	t.Pairs, letters, notes = g.distinguish(names, t.Common, lostAmounts, difference)
	for i := range letters {
		t.Ranked[i].Letters = letters[i]
	}
	return notes
}

// cellsOf lists the places where a policy ran.
func (g *grid) cellsOf(policy string) (refs []CellRef) {
	for _, c := range g.list {
		if c.policy == policy {
			refs = append(refs, c.ref())
		}
	}
	return refs
}

func (g *grid) lossyLine(policy string, t *LossyTable) LossyLine {
	line := LossyLine{Policy: policy}
	line.Pooled = g.lossyFigures(policy, t.Common)
	for _, capacity := range t.Capacities {
		at := slices.DeleteFunc(slices.Clone(t.Common), func(r CellRef) bool { return r.Capacity != capacity })
		line.Capacities = append(line.Capacities, g.lossyFigures(policy, at))
	}
	for _, c := range g.list {
		if c.policy == policy {
			line.texts = result.Unite(line.texts, c.footnotes())
		}
	}
	return line
}

// lossyFigures pools a policy's cells. It returns nil if one is missing.
func (g *grid) lossyFigures(policy string, refs []CellRef) *LossyFigures {
	tallies := g.tallies(policy, refs)
	if len(tallies) == 0 {
		return nil
	}
	total := sum(tallies)
	f := &LossyFigures{Cells: len(refs), Lost: total.lost, Demand: total.demand, Steps: total.steps,
		Recall: &Figure{Value: *Number(result.RecallOf(total.demand, total.lost))}}
	if steps := float64(total.steps); steps > 0 {
		f.ResidentMean = *Number(total.residentSum / steps)
		kept, covered := total.keptSum/steps, total.coveredSum/steps
		if total.coveredKnown {
			f.CoveredMass = Number(covered)
		}
		if total.massKnown {
			f.MassKept, f.MassLeast, f.MassMost = Number(kept/covered), Number(kept), Number(kept+1-covered)
		}
	}
	if series := g.lostShares(policy, refs); series != nil {
		if low, high := interval(series, g.tail(refs)); low != nil && high != nil {
			f.Recall.Low, f.Recall.High = Number(1-*high), Number(1-*low)
		}
	}
	return f
}

// lostShares are the resamples of lost ÷ demand; nil where a trace has requests too few.
func (g *grid) lostShares(policy string, refs []CellRef) []float64 {
	var lost, demand []float64
	for _, r := range refs {
		c, d := g.at(r, policy), g.draws[r.Trace]
		if d == nil || c.requests == nil {
			return nil
		}
		values := make([]int64, len(c.requests))
		for i, t := range c.requests {
			values[i] = t.lost
		}
		lost, demand = addSeries(lost, d.sums(values)), addSeries(demand, g.demand[r.Trace])
	}
	for b := range lost {
		lost[b] /= math.Max(1, demand[b])
	}
	return lost
}

func addSeries(a, b []float64) []float64 {
	if a == nil {
		return slices.Clone(b)
	}
	for i := range a {
		a[i] += b[i]
	}
	return a
}

// rankLossy sorts by recall, best first, and numbers the lines as rank does.
func rankLossy(lines []LossyLine) {
	recall := func(l *LossyLine) float64 { return l.Pooled.Recall.Value }
	slices.SortFunc(lines, func(a, b LossyLine) int {
		return cmp.Or(cmp.Compare(recall(&b), recall(&a)), strings.Compare(a.Policy, b.Policy))
	})
	for i := range lines {
		lines[i].Rank = place(i, len(lines), func(j int) float64 { return recall(&lines[j]) })
	}
}

// lossyNotes say what the figures are over.
func (g *grid) lossyNotes(t *LossyTable, c *coverage) []string {
	notes := []string{"a lossy policy fetches nothing: what it dropped and is demanded is lost. Replay takes later selections as the full model made them: an approximation, never ranked with exact policies, whose recall is 1"}
	if len(t.Common) > 0 {
		notes = append(notes, c.pooledNote())
	} else {
		notes = append(notes, noSharedCell)
	}
	notes = append(notes, c.leftNotes()...)
	for _, line := range t.Unranked {
		switch {
		case line.Policy == t.alone:
			notes = append(notes, aloneNote(t.alone))
		case len(t.Common) > 0:
			notes = append(notes, c.unrankedNote(line.Policy))
		}
	}
	if slices.ContainsFunc(t.Cells, func(c LossyCell) bool { return c.Figures.MassKept != nil }) {
		notes = append(notes, "mass kept: share of the recorded attention that the policy still had. The lists cover the share in the column beside; of all attention it had between the bounds")
	}
	return append(notes, g.intervalNotes(t.Common)...)
}
