package board

import (
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Kinds of policies that are ranked apart (SEMANTICS S10): tables are of exact ones, for lossy
// ones there is LossyTable.
const (
	ExactKind = "exact"
	LossyKind = "lossy"
)

func kindOf(lossy bool) string {
	if lossy {
		return LossyKind
	}
	return ExactKind
}

// onBoard is true for cells of the main board: of an exact policy, at a capacity that every
// one can be given.
func (c *cell) onBoard() bool {
	return c.capacity != "" && !strings.HasPrefix(c.capacity, result.PeakPrefix) && !c.sample.Lossy
}

func (c *cell) ref() CellRef { return CellRef{c.trace, c.capacity} }

// table ranks the exact policies; false where there are none.
func (g *grid) table() (Table, bool) {
	contenders, bounds := g.policies()
	if len(contenders)+len(bounds) == 0 {
		return Table{}, false
	}
	t := Table{Kind: ExactKind}
	ran := contenders
	if len(ran) == 0 {
		ran = bounds
	}
	usable := g.usable(&t, ran)
	t.usable = usable
	for _, r := range usable {
		t.Traces = append(t.Traces, r.Trace)
	}
	t.Traces = slices.Compact(t.Traces)
	cells := map[string][]CellRef{}
	for _, p := range ran {
		cells[p] = slices.DeleteFunc(slices.Clone(usable), func(r CellRef) bool { return g.at(r, p) == nil })
	}
	cellsOf := func(policy string) []CellRef { return cells[policy] }
	var ranked, unranked []string
	t.Common, ranked, unranked = commonCells(contenders, cellsOf)
	if len(contenders) == 0 {
		t.Common = usable
	}
	who := newCoverage(contenders, cellsOf, t.Common, ranked)
	if t.ahead {
		ranked, unranked = nil, contenders
	}
	t.onTrace = commonOnTraces(t.Traces, ran, cellsOf)
	var lines []contender
	for _, p := range ranked {
		line := g.line(p, &t)
		if who.takes(p) {
			line.texts = result.Unite(line.texts, []string{takesNote})
		}
		lines = append(lines, contender{line, line.Pooled.XOpt.Value})
	}
	if g.by == ByTime {
		lines, t.untimed = untimed(lines)
		unranked = result.Unite(unranked, t.untimed)
	}
	if len(lines) == 1 { // a rank is a place among others
		t.alone = lines[0].line.Policy
		lines, unranked = nil, result.Unite(unranked, []string{t.alone})
	}
	t.Ranked = rank(lines)
	t.Unranked, t.Bounds = g.lines(unranked, &t), g.lines(bounds, &t)
	g.addLetters(&t)
	t.Notes = g.tableNotes(&t, who)
	return t, true
}

// addLetters distinguishes the ranked policies by the figures that they are ranked by.
func (g *grid) addLetters(t *Table) {
	names := make([]string, len(t.Ranked))
	for i, l := range t.Ranked {
		names[i] = l.Policy
	}
	amounts := missAmounts
	if g.by == ByTime {
		amounts = g.requestTimes
	}
	var letters []string
	t.Pairs, letters, t.letterNotes = g.distinguish(names, t.Common, amounts, logRatio)
	for i := range letters {
		t.Ranked[i].Letters = letters[i]
	}
}

// policies lists the contenders and the bounds of the table, by name.
func (g *grid) policies() (contenders, bounds []string) {
	for _, c := range g.list {
		switch {
		case !c.onBoard():
		case c.sample.Offline:
			bounds = append(bounds, c.policy)
		default:
			contenders = append(contenders, c.policy)
		}
	}
	return result.Unite(contenders, nil), result.Unite(bounds, nil)
}

// usable lists the cells in which × OPT exists and can be a mean's part, and files the
// others in the table.
func (g *grid) usable(t *Table, policies []string) []CellRef {
	var usable []CellRef
	for _, r := range g.refs(policies) {
		t.Capacities = append(t.Capacities, r.Capacity)
		switch opt := g.at(r, OptPolicy); {
		case opt == nil:
			t.NoOpt = append(t.NoOpt, r)
		case opt.total.misses == 0:
			t.OptZero = append(t.OptZero, r)
		case g.missless(policies, []CellRef{r}) != nil:
			t.NoMiss = append(t.NoMiss, r)
		default:
			usable = append(usable, r)
		}
	}
	t.Capacities = result.SortCapacities(t.Capacities)
	return g.onDemand(t, usable)
}

// missless lists the policies without a miss in some of the cells.
func (g *grid) missless(policies []string, refs []CellRef) (without []string) {
	for _, p := range policies {
		if slices.ContainsFunc(refs, func(r CellRef) bool { c := g.at(r, p); return c != nil && c.total.misses == 0 }) {
			without = append(without, p)
		}
	}
	return without
}

// onDemand keeps the cells of rows that do not prefetch: the others OPT does not bound, so
// that a rank by × OPT says nothing. Where there are no others they stay, unranked.
func (g *grid) onDemand(t *Table, usable []CellRef) []CellRef {
	if g.by == ByTime {
		return usable
	}
	prefetches := func(r CellRef) bool { return g.at(r, OptPolicy).sample.Prefetch != "" }
	left := slices.DeleteFunc(slices.Clone(usable), prefetches)
	if len(left) == 0 {
		t.ahead = len(usable) > 0
		return usable
	}
	t.Prefetched = slices.DeleteFunc(slices.Clone(usable), func(r CellRef) bool { return !prefetches(r) })
	return left
}

// refs lists the places at which any of the policies ran, sorted.
func (g *grid) refs(policies []string) []CellRef {
	var refs []CellRef
	for _, c := range g.list {
		if c.onBoard() && slices.Contains(policies, c.policy) {
			refs = append(refs, c.ref())
		}
	}
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs)
}

func (g *grid) lines(policies []string, t *Table) []Line {
	var lines []Line
	for _, p := range policies {
		lines = append(lines, g.line(p, t))
	}
	return lines
}

// line computes a policy's figures over the common cells, all and by capacity.
func (g *grid) line(policy string, t *Table) Line {
	line := Line{Policy: policy, Pooled: g.measure(policy, t.Common)}
	for _, capacity := range t.Capacities {
		at := slices.DeleteFunc(slices.Clone(t.Common), func(r CellRef) bool { return r.Capacity != capacity })
		line.Capacities = append(line.Capacities, g.measure(policy, at))
	}
	for _, trace := range t.Traces {
		line.Traces = append(line.Traces, g.measure(policy, t.onTrace[trace]))
	}
	for _, c := range g.list {
		if c.policy == policy && c.onBoard() {
			line.texts = result.Unite(line.texts, c.footnotes())
		}
	}
	return line
}

// commonOnTraces chooses for each trace, as for the ranking, the usable cells that the
// policies that ran there have.
func commonOnTraces(traces, policies []string, cellsOf func(string) []CellRef) map[string][]CellRef {
	type place struct{ trace, policy string }
	cells := map[place][]CellRef{}
	for _, p := range policies {
		for _, r := range cellsOf(p) {
			cells[place{r.Trace, p}] = append(cells[place{r.Trace, p}], r)
		}
	}
	common := map[string][]CellRef{}
	for _, trace := range traces {
		onTrace := func(policy string) []CellRef { return cells[place{trace, policy}] }
		there := slices.DeleteFunc(slices.Clone(policies), func(p string) bool { return len(onTrace(p)) == 0 })
		common[trace], _, _ = commonCells(there, onTrace)
	}
	return common
}

// cellLines lists every cell of the main board on its own.
func (g *grid) cellLines() []CellLine {
	var lines []CellLine
	for _, c := range g.list {
		if c.onBoard() {
			lines = append(lines, CellLine{
				CellRef: c.ref(), Policy: c.policy, Kind: ExactKind, Bound: c.sample.Offline,
				CapacityOverK: c.overK(), Figures: g.measure(c.policy, []CellRef{c.ref()}), texts: c.footnotes(),
			})
		}
	}
	slices.SortStableFunc(lines, func(a, b CellLine) int { return compareRefs(a.CellRef, b.CellRef) })
	return lines
}
