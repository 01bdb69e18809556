package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Kinds of policies, ranked apart (SEMANTICS S10).
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

// The names of the keys that exact policies can be ranked by.
const (
	ByMisses = "misses"
	ByTime   = "time"
)

// Key is a figure that policies are ranked by.
type Key struct {
	// Name is "misses", "time" or "recall". Column heads the column of the figure.
	Name, Column string
	// Kind is the kind of policies that the key ranks.
	Kind string
	// Descending is true if more is better.
	Descending bool
	// Of returns the figure, nil if the figures lack it.
	Of func(*Figures) *Figure

	// The permutation test of two policies. amounts returns the misses, lost blocks or times of a cell's
	// requests. Their sum is the figure's numerator. statistic compares them.
	amounts   func(*grid, *cell) []float64
	statistic statistic
}

// The keys of rankings.
var (
	// MissesKey ranks exact policies by misses ÷ OPT's.
	MissesKey = &Key{Name: ByMisses, Column: "× OPT", Kind: ExactKind, Of: func(f *Figures) *Figure { return f.XOpt },
		amounts: func(_ *grid, c *cell) []float64 { return perRequest[float64](c, (*counts).countMisses) }}
	// TimeKey ranks exact policies by modelled time per output token, in seconds.
	TimeKey = &Key{Name: ByTime, Column: "TPOT", Kind: ExactKind, Of: func(f *Figures) *Figure {
		if f.TPOT == nil {
			return nil
		}
		return &Figure{Value: *f.TPOT}
	}, amounts: (*grid).requestTimes}
	// RecallKey ranks lossy policies by the share of the demand that they kept. All have the same
	// demand, so the lost blocks decide.
	RecallKey = &Key{Name: "recall", Column: "recall", Kind: LossyKind, Descending: true, statistic: difference,
		Of:      func(f *Figures) *Figure { return f.Recall },
		amounts: func(_ *grid, c *cell) []float64 { return perRequest[float64](c, (*counts).countLost) }}
)

// includes reports whether a cell belongs to the key's ranking: a cell of a lossy policy, or of an
// exact one at a capacity that every exact policy can have.
func (k *Key) includes(c *cell) bool {
	if k.Kind == LossyKind {
		return c.sample.Lossy
	}
	return c.onBoard()
}

// measure computes a policy's figures over the pool, nil if it lacks a cell.
func (k *Key) measure(p *pool, policy string) *Figures {
	if k.Kind == LossyKind {
		return p.measureLossy(policy)
	}
	return p.measure(policy)
}

// Ranking orders the policies of one kind by a key. Exact and lossy policies are never ranked
// together, because exact ones have all of the demand (SEMANTICS S10).
type Ranking struct {
	// Key is the figure that the policies are ranked by.
	Key *Key `json:"-"`
	// Kind is "exact". It is left out of the ranking of lossy policies.
	Kind string `json:"kind,omitempty"`
	// Capacities are the requested capacities, ascending.
	Capacities []string `json:"capacities"`
	// Traces are those with cells in which × OPT exists, by name. Only for exact policies.
	Traces []string `json:"traces,omitzero"`
	// Common are the cells of pooled figures, which all ranked policies have.
	Common []CellRef `json:"common"`
	*Excluded
	// Ranked are the contenders, best first. Unranked are those that lack a common cell, and all of
	// them if fewer than two can be ranked. Bounds are the offline policies.
	Ranked   []Line `json:"ranked"`
	Unranked []Line `json:"unranked"`
	Bounds   []Line `json:"bounds,omitzero"`
	// Pairs are the tests of all pairs of Ranked. It is empty if the requests are too few.
	Pairs []PairTest `json:"pairs"`
	// Cells are all figures of lossy policies by trace and capacity, in that order. Those of
	// exact policies are Board.Cells.
	Cells []CellLine `json:"cells,omitzero"`
	// Notes describe the cells of the figures.
	Notes []string `json:"notes"`

	usable  []CellRef            // cells in which the key exists
	onTrace map[string][]CellRef // the cells of a line's figures on a trace
	untimed []string             // policies with all common cells that lack a time in one
	unbound []string             // reasons that OPT does not bound some of the cells
	alone   string               // the only policy that could be ranked

	covered     *coverage
	letterNotes []string
}

// Alone reports whether the ranking has one policy that could be ranked, or bounds only.
func (t *Ranking) Alone() bool { return t.alone != "" || len(t.Unranked) == 0 && len(t.Bounds) > 0 }

// Excluded are the cells that rankings of exact policies leave out.
type Excluded struct {
	// OptZero are cells in which OPT has no miss. NoOpt are those without a row of OPT. NoMiss are
	// those in which a contender has no miss although OPT has, which would make a geometric mean 0.
	// Unbound are those that OPT does not bound, as with prefetch, if there are others.
	OptZero []CellRef `json:"opt_zero"`
	NoOpt   []CellRef `json:"no_opt"`
	NoMiss  []CellRef `json:"no_miss"`
	Unbound []CellRef `json:"prefetched_cells"`
}

// Line is a policy's line of a ranking.
type Line struct {
	// Rank is "1", or "2=" in a tie. It is empty for bounds and unranked policies.
	Rank string `json:"rank"`
	// Letters are the groups of the policy: policies that share a letter are not distinguished by
	// their requests. It is empty for unranked policies and bounds, and if the requests are too few.
	Letters string `json:"letters"`
	Policy  string `json:"policy"`
	// Pooled is over Ranking.Common, null if the policy lacks one of those cells.
	Pooled *Figures `json:"pooled"`
	// Capacities are over the common cells of each of Ranking.Capacities. Each is null if the policy
	// lacks one.
	Capacities []*Figures `json:"capacities"`
	// Traces are over the cells of each of Ranking.Traces that the trace's policies have. Each is null
	// if this policy lacks one of them.
	Traces []*Figures `json:"traces,omitzero"`
	Remarks
}

// CellLine is one policy at one trace and capacity.
type CellLine struct {
	CellRef
	Policy string `json:"policy"`
	*ExactCell
	Figures *Figures `json:"figures"`
	Remarks
}

// ExactCell describes the cell of an exact policy.
type ExactCell struct {
	// Kind is "exact". Bound is true for offline policies.
	Kind  string `json:"kind"`
	Bound bool   `json:"bound"`
	// CapacityOverK is the capacity of a stream ÷ K, the mean if streams differ, null if it is
	// unknown.
	CapacityOverK *float64 `json:"capacity_over_k"`

	// Entries is the capacity of a stream in entries, the mean if streams differ, nil if it is unknown.
	Entries *float64 `json:"-"`
}

// Lines returns all lines of the ranking, in their order.
func (t *Ranking) Lines() []Line { return slices.Concat(t.Ranked, t.Unranked, t.Bounds) }

// Intervals reports whether the key of some line has an interval.
func (t *Ranking) Intervals() bool {
	return slices.ContainsFunc(t.Lines(), func(l Line) bool { return l.Pooled != nil && t.Key.Of(l.Pooled).Bounded() })
}

// ranking ranks the policies of the key's kind. It returns nil if no row is of that kind.
func (g *grid) ranking(key *Key) *Ranking {
	contenders, bounds := g.policies(key)
	ran := contenders
	if len(ran) == 0 {
		ran = bounds
	}
	if len(ran) == 0 {
		return nil
	}
	t := &Ranking{Key: key}
	for _, r := range g.refs(key, ran) {
		t.Capacities = append(t.Capacities, r.Capacity)
		t.usable = append(t.usable, r)
	}
	t.Capacities = result.SortCapacities(t.Capacities)
	if key.Kind == ExactKind {
		t.Kind, t.Bounds = ExactKind, []Line{}
		g.selectUsable(t, ran)
	} else {
		t.Cells = g.cellLines(key)
	}
	cells := map[string][]CellRef{}
	for _, p := range ran {
		cells[p] = slice.Filter(t.usable, func(r CellRef) bool { return g.at(r, p) != nil })
	}
	cellsOf := func(policy string) []CellRef { return cells[policy] }
	var ranked, unranked []string
	t.Common, ranked, unranked = commonCells(contenders, cellsOf)
	if len(contenders) == 0 {
		t.Common = t.usable
	}
	t.covered = &coverage{contenders, cellsOf, t.Common, ranked, lacking(haveMoreThan(0, ranked, cellsOf), t.Common)}
	if t.BoundsNothing() {
		ranked, unranked = nil, contenders
	}
	if key.Kind == ExactKind {
		t.Traces = slices.Compact(slice.Map(t.usable, func(r CellRef) string { return r.Trace }))
		t.onTrace = commonOnTraces(t.Traces, ran, cellsOf)
	}
	pools := g.poolsOf(t)
	for _, line := range g.lines(ranked, t, pools) {
		if key.Of(line.Pooled) == nil {
			t.untimed = append(t.untimed, line.Policy)
			continue
		}
		if t.covered.shrinksPool(line.Policy) {
			line.texts = text.Union(line.texts, shrinksNote)
		}
		t.Ranked = append(t.Ranked, line)
	}
	if len(t.Ranked) == 1 { // a rank needs others to compare with
		t.alone, t.Ranked = t.Ranked[0].Policy, nil
		unranked = text.Union(unranked, t.alone)
	}
	t.sort()
	t.Unranked = g.lines(text.Union(unranked, t.untimed...), t, pools)
	t.Bounds = append(t.Bounds, g.lines(bounds, t, pools)...)
	return t
}

// addNotes adds the notes of a ranking, whose intervals are made.
func (g *grid) addNotes(t *Ranking) {
	t.Notes = append(g.rankingNotes(t, t.covered), t.letterNotes...)
	if t.Key == TimeKey && len(t.Ranked) > 0 {
		t.Notes = append(t.Notes, "A board's times are within 3 % of those of `kvreplay time` on a sequential schedule. It may order closer policies differently")
	}
	tied := func(l Line) bool { return strings.HasSuffix(l.Rank, "=") }
	if t.Key.Kind == ExactKind && slices.ContainsFunc(t.Ranked, tied) {
		t.Notes = append(t.Notes, "=: equal "+t.Key.Column)
	}
}

// sort orders the ranked lines by the key, best first, and numbers them: 1, 2=, 2=, 4. Keys are
// rounded so that equal figures tie: × OPT and recall to nine digits, times to six.
func (t *Ranking) sort() {
	key := func(l *Line) float64 {
		if value := t.Key.Of(l.Pooled).Value; !t.Key.Descending {
			return value
		} else {
			return -value
		}
	}
	slice.Sort(t.Ranked, func(a, b Line) int {
		return cmp.Or(cmp.Compare(key(&a), key(&b)), strings.Compare(a.Policy, b.Policy))
	})
	for i := range t.Ranked {
		equal := func(l Line) bool { return key(&l) == key(&t.Ranked[i]) }
		first := slices.IndexFunc(t.Ranked, equal)
		t.Ranked[i].Rank = fmt.Sprint(first + 1)
		if first < i || i+1 < len(t.Ranked) && equal(t.Ranked[i+1]) {
			t.Ranked[i].Rank += "="
		}
	}
}

// policies lists the contenders and the bounds of the key's ranking, by name.
func (g *grid) policies(key *Key) (contenders, bounds []string) {
	for _, c := range g.list {
		switch {
		case !key.includes(c):
		case c.sample.Offline && !c.sample.Lossy:
			bounds = append(bounds, c.policy)
		default:
			contenders = append(contenders, c.policy)
		}
	}
	return text.Union(contenders), text.Union(bounds)
}

// refs lists the places of the key's ranking at which any of the policies ran, sorted.
func (g *grid) refs(key *Key, policies []string) []CellRef {
	var refs []CellRef
	for _, c := range g.list {
		if key.includes(c) && slices.Contains(policies, c.policy) {
			refs = append(refs, c.ref())
		}
	}
	slice.Sort(refs, compareRefs)
	return slices.Compact(refs)
}

// selectUsable keeps the usable cells, in which × OPT exists and can be part of a mean. It lists the
// others in Excluded. Cells that OPT does not bound are left out, because a rank by × OPT says
// nothing about them. If there are no other cells, they stay, unranked.
func (g *grid) selectUsable(t *Ranking, policies []string) {
	t.Excluded = new(Excluded)
	var usable, unbound, bound []CellRef
	for _, r := range t.usable {
		switch opt := g.at(r, OptPolicy); {
		case opt == nil:
			t.NoOpt = append(t.NoOpt, r)
		case opt.total.misses == 0:
			t.OptZero = append(t.OptZero, r)
		case g.missless(policies, []CellRef{r}) != nil:
			t.NoMiss = append(t.NoMiss, r)
		default:
			usable = append(usable, r)
			if why := opt.sample.Unbound(); why != "" {
				unbound, t.unbound = append(unbound, r), text.Union(t.unbound, why)
			} else {
				bound = append(bound, r)
			}
		}
	}
	t.usable = usable
	if t.Key != TimeKey && bound != nil {
		t.usable, t.Unbound = bound, unbound
	}
}

// BoundsNothing reports whether OPT bounds no cell of a ranking by × OPT.
func (t *Ranking) BoundsNothing() bool {
	return t.Key == MissesKey && t.unbound != nil && len(t.Unbound) == 0
}

// missless lists the policies without a miss in some of the cells.
func (g *grid) missless(policies []string, refs []CellRef) []string {
	return slice.Filter(policies, func(p string) bool {
		return slices.ContainsFunc(refs, func(r CellRef) bool { c := g.at(r, p); return c != nil && c.total.misses == 0 })
	})
}

// linePools are the pools of a line's figures.
type linePools struct {
	common             *pool
	capacities, traces []*pool
}

func (g *grid) poolsOf(t *Ranking) linePools {
	pools := linePools{common: g.over(t.Common)}
	for _, capacity := range t.Capacities {
		at := slice.Filter(t.Common, func(r CellRef) bool { return r.Capacity == capacity })
		pools.capacities = append(pools.capacities, g.over(at))
	}
	for _, trace := range t.Traces {
		pools.traces = append(pools.traces, g.over(t.onTrace[trace]))
	}
	return pools
}

// lines computes the figures of policies: over the common cells, all and by capacity, and by trace.
func (g *grid) lines(policies []string, t *Ranking, pools linePools) []Line {
	texts := map[string][]string{}
	for _, c := range g.list {
		if t.Key.includes(c) {
			texts[c.policy] = append(texts[c.policy], c.footnotes()...)
		}
	}
	var lines []Line
	for _, policy := range policies {
		figures := func(p *pool) *Figures { return t.Key.measure(p, policy) }
		line := Line{Policy: policy, Pooled: figures(pools.common), Capacities: slice.Map(pools.capacities, figures)}
		if t.Kind == ExactKind {
			line.Traces = slice.Map(pools.traces, figures)
		}
		line.texts = text.Union(texts[policy])
		lines = append(lines, line)
	}
	return lines
}

// cellLines lists every cell of the key's ranking.
func (g *grid) cellLines(key *Key) []CellLine {
	lines := []CellLine{}
	pools := map[CellRef]*pool{}
	for _, c := range g.list {
		if !key.includes(c) {
			continue
		}
		at := c.ref()
		if pools[at] == nil {
			pools[at] = g.over([]CellRef{at})
		}
		line := CellLine{CellRef: at, Policy: c.policy, Remarks: Remarks{texts: c.footnotes()}}
		line.Figures = key.measure(pools[at], c.policy)
		if key.Kind == ExactKind {
			line.ExactCell = &ExactCell{Kind: ExactKind, Bound: c.sample.Offline, CapacityOverK: c.overK(), Entries: c.entries()}
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b CellLine) int { return compareRefs(a.CellRef, b.CellRef) })
	return lines
}

// PairTest is the paired permutation test of two ranked policies.
type PairTest struct {
	A string `json:"a"`
	B string `json:"b"`
	// P is two-sided, Holm is P corrected for the number of pairs.
	P    float64 `json:"p"`
	Holm float64 `json:"p_holm"`
}

// addLetters tests every pair of the ranked policies over the common cells by the key. It gives
// letters to the groups that the requests do not distinguish. It does nothing without rows by
// request. It returns notes that explain the letters or their absence.
func (g *grid) addLetters(t *Ranking) (notes []string) {
	amounts := make([][][]float64, len(t.Ranked)) // by policy, cell and request
	for i, l := range t.Ranked {
		for _, r := range t.Common {
			c := g.at(r, l.Policy)
			if c.requests == nil {
				return nil
			}
			amounts[i] = append(amounts[i], t.Key.amounts(g, c))
		}
	}
	if len(t.Ranked) < 2 || len(t.Common) == 0 {
		return nil
	}
	cells := make([]sides, len(t.Common))
	for k, r := range t.Common {
		cells[k] = sides{trace: r.Trace, a: amounts[0][k]}
	}
	swaps := newSwaps(g.sampler.seed, cells)
	n, tests := slice.Sum(swaps.traces, func(t *traceSwaps) int { return t.requests }), len(t.Ranked)*(len(t.Ranked)-1)/2
	if !decidable(n, tests) {
		return []string{fmt.Sprintf("No letters: %s need %d requests for a significant difference, n = %d. Test one pair: kvreplay compare A B", text.Count(tests, "pair"), fewestDecidable(tests), n)}
	}
	var pairs [][2]int
	for i := range t.Ranked {
		for j := i + 1; j < len(t.Ranked); j++ {
			pairs = append(pairs, [2]int{i, j})
		}
	}
	ps := swaps.ps(amounts, pairs, t.Key.statistic)
	if slices.ContainsFunc(ps, math.IsNaN) { // an amount is unknown
		return nil
	}
	var different [][2]int
	for k, corrected := range holm(ps) {
		a, b := t.Ranked[pairs[k][0]].Policy, t.Ranked[pairs[k][1]].Policy
		t.Pairs = append(t.Pairs, PairTest{a, b, *Number(ps[k]), *Number(corrected)})
		if corrected < Significant {
			different = append(different, pairs[k])
		}
	}
	letters := lettersOf(len(t.Ranked), different)
	if letters == nil {
		return []string{"No letters: the policies form too many groups. Test all against one: kvreplay compare --all B"}
	}
	for i := range letters {
		t.Ranked[i].Letters = letters[i]
	}
	return []string{fmt.Sprintf("Policies that share a letter do not differ significantly (test a pair: kvreplay compare A B). "+
		"Permutation test over %d requests, Holm for %s, p < %g", n, text.Count(tests, "pair"), Significant)}
}

// rankingNotes describe the cells of pooled figures, and the cells that are left out.
func (g *grid) rankingNotes(t *Ranking, c *coverage) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if t.Key == RecallKey {
		mass := ""
		if slices.ContainsFunc(t.Cells, func(c CellLine) bool { return c.Figures.MassKept != nil }) {
			mass = ". mass kept: the share of the recorded attention that the policy still had. recorded: the share of all " +
				"attention that the lists cover. of all mass: the bounds of its share of all attention"
		}
		note("recall: the share of the demanded blocks that the policy still had. A lossy policy never fetches a dropped block again. "+
			"Replay keeps the recorded selections, which is an approximation. Exact policies have recall 1 and are ranked apart%s", mass)
	}
	switch {
	case t.BoundsNothing():
		note("Not ranked: the rows %s, so opt bounds neither their misses nor their bytes. "+
			"Judge both together (kvreplay compare A B, or --by time)", strings.Join(t.unbound, " or "))
		note("Pooled over %s. Cells: %s", text.Count(len(t.Common), "cell"), refsText(t.Common))
	case len(t.Common) > 0:
		shared := ""
		if len(c.ranked) > 1 {
			shared = " that all ranked policies have"
		}
		note("Pooled over %s%s. Cells: %s", text.Count(len(t.Common), "cell"), shared, refsText(t.Common))
	case len(t.usable) > 0 && len(t.Unranked) > 1:
		note("Not ranked: no two policies have a trace and capacity in common. Replay them at the same capacities")
	}
	notes = append(notes, c.leftNotes()...)
	var lack []string
	for _, line := range t.Unranked {
		switch {
		case slices.Contains(t.untimed, line.Policy):
			note("%s is not ranked: a cell has no modelled time", line.Policy)
		case len(c.cellsOf(line.Policy)) == 0:
			ran := g.refs(t.Key, []string{line.Policy})
			note("%s is not ranked: none of its cells has a × OPT (it ran at %s)", line.Policy, refsText(ran))
		case line.Policy == t.alone:
			note("%s is not ranked: no other policy has its cells. Replay another policy at the same capacities", t.alone)
		case line.Pooled == nil && len(t.Common) > 0:
			lack = append(lack, line.Policy)
		}
	}
	if lack != nil {
		notes = append(notes, c.unrankedNote(lack))
	}
	if t.Excluded != nil {
		for _, left := range []struct {
			cells     []CellRef
			why, hint string
		}{
			{t.OptZero, "OPT has no misses", ""},
			{t.NoMiss, "only " + strings.Join(g.missless(c.policies, t.NoMiss), ", ") + " has no misses", ""},
			{t.Unbound, "OPT does not bound rows that " + strings.Join(t.unbound, " or "), ". Show them with --where trace=NAME"},
			{t.NoOpt, "opt has no row", ""},
		} {
			if n := len(left.cells); n > 0 {
				note("Left out, because %s: %s: %s%s", left.why, text.Count(n, "cell"), refsText(left.cells), left.hint)
			}
		}
	}
	if t.Intervals() { // times are shown without intervals
		notes = append(notes, g.intervalNotes(t.Common)...)
	}
	return notes
}
