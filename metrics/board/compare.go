package board

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// ComparisonVersion is the version of Comparison's JSON form. A field is never renamed or reused. A
// change of meaning raises the version.
const ComparisonVersion = 2

// warmedStart is the start of rows that are not cold.
const warmedStart = "warmed"

// Comparison states which of two policies misses less, at which cells, and whether the requests
// distinguish the two. It is a pure function of rows.
type Comparison struct {
	// Version is ComparisonVersion.
	Version int `json:"comparison_version"`
	// A and B are the policies, as rows name them.
	A string `json:"a"`
	B string `json:"b"`
	// Resamples and Seed are those of the bootstrap intervals.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// Incomplete lists the requested cells without rows. It is null if all have rows.
	Incomplete *result.Incomplete `json:"incomplete"`
	// Groups are the warmed rows and the cold ones. They are never pooled (SEMANTICS S8).
	Groups []ComparedGroup `json:"groups"`
}

// ComparedGroup compares over rows that may be pooled.
type ComparedGroup struct {
	// Start is "warmed" or "cold".
	Start string `json:"start"`
	// Labels are the conditions that limit the figures. Those of some traces only state
	// their share.
	Labels result.Labels `json:"labels"`
	// Cells are the places at which both policies ran, by trace and capacity.
	Cells []Contest `json:"cells"`
	// Pooled is over all Cells, null if there are none.
	Pooled *Contest `json:"pooled"`
	// Unpaired are the places at which only one of the two ran.
	Unpaired []CellRef `json:"unpaired"`
	// Notes describe the cells of the figures, and repeat the warnings of the rows.
	Notes []string `json:"notes"`
}

// Contest is A against B over one cell or, pooled, over several.
type Contest struct {
	// CellRef is the place, empty if pooled. It is "peak:window:2" if one of the two has no capacity
	// and the other had its peak.
	CellRef
	// Labels are those of the place, empty if pooled.
	Labels result.Labels `json:"labels"`
	// Cells is the number of cells.
	Cells int `json:"cells"`
	// MissesA and MissesB are blocks, summed over the cells.
	MissesA int64 `json:"misses_a"`
	MissesB int64 `json:"misses_b"`
	// Ratio is A's misses ÷ B's in each cell, as a geometric mean over the cells in which both miss.
	// Below 1 A is better. Low and High come from paired resamples of the requests. Ratio is null if B
	// has no miss.
	Ratio *Figure `json:"ratio"`
	// Requests and Streams count which policy missed less, with one vote per request or stream. They
	// are null if rows are pooled over them.
	Requests *Votes `json:"requests"`
	Streams  *Votes `json:"streams"`
	// P is from the paired permutation test over the requests. It is the chance of a ratio at least as
	// far from 1 if A and B could be exchanged in any request. It is null if rows are pooled over
	// requests.
	P *float64 `json:"p"`
	// Better is the policy that misses less, if P is below 0.05, otherwise null.
	Better *string `json:"better"`

	// Inverse is B's misses ÷ A's, which is 0. It exists only if B alone has no miss, so that there is
	// no Ratio.
	Inverse *Figure `json:"-"`
}

// Votes count which of two policies missed less, with one vote per request or stream. A vote is
// over its misses summed over the cells.
type Votes struct {
	// Count = Wins + Losses + Ties.
	Count int `json:"count"`
	// Wins are the votes for A, which missed less there. Losses are those for B.
	Wins   int `json:"wins"`
	Losses int `json:"losses"`
	Ties   int `json:"ties"`
}

// UnknownPolicy is an error: no row has the policy's name.
type UnknownPolicy struct {
	Name  string
	Known []string // the policies of the rows, sorted
}

func (e *UnknownPolicy) Error() string { return fmt.Sprintf("no rows of policy %q", e.Name) }

// Compare compares policies a and b over the cells that both have in rows. Rows that must not be
// compared are an error that names them: different settings, different work, or an exact with a
// lossy policy. A name without rows is an *UnknownPolicy. Rows of tiers below the GPU's cache are
// left out, because their demand is the misses of the cache above.
func Compare(rows []result.Row, a, b string, o Options) (*Comparison, error) {
	return newComparer(rows, o).comparison(a, b)
}

// comparer makes comparisons of the policies of rows.
type comparer struct {
	options Options
	sampler *sampler
	samples map[string]*result.Row // a row of each policy
	// cells returns the cells of two policies, sorted, and checks their settings. They are of cold
	// starts or of warmed caches.
	cells func(a, b string, cold bool) ([]*cell, error)
	tiers bool // there are rows of tiers, which are left out
}

func newComparer(rows []result.Row, o Options) *comparer {
	top, tiers := splitTiers(result.Pointers(rows))
	c := &comparer{options: o, sampler: newSampler(o), samples: map[string]*result.Row{}, tiers: len(tiers) > 0}
	policies := map[string][]*result.Row{}
	for _, r := range top {
		if c.samples[r.Policy] == nil {
			c.samples[r.Policy] = r
		}
		policies[r.Policy] = append(policies[r.Policy], r)
	}
	c.cells = func(a, b string, cold bool) ([]*cell, error) {
		rows := slice.Filter(slices.Concat(policies[a], policies[b]), func(r *result.Row) bool { return (r.Warmup == result.ColdStart) == cold })
		if err := result.CheckSettings(rows); err != nil {
			return nil, err
		}
		return newCells(rows)
	}
	return c
}

// known lists the policies that have rows, sorted.
func (c *comparer) known() []string { return slices.Sorted(maps.Keys(c.samples)) }

// comparison is Compare.
func (c *comparer) comparison(a, b string) (*Comparison, error) {
	meetings, err := c.meetings(a, b)
	if err != nil {
		return nil, err
	}
	d := &Comparison{Version: ComparisonVersion, A: a, B: b,
		Resamples: c.sampler.count, Seed: c.sampler.seed, Incomplete: c.options.Incomplete}
	for _, m := range meetings {
		g := d.group(m)
		g.Notes = append(c.options.Incomplete.Notes(), g.Notes...)
		if c.tiers {
			g.Notes = append(g.Notes, "Only the GPU's caches are compared. Tiers below are left out, because their demand is the misses of the cache above")
		}
		d.Groups = append(d.Groups, g)
	}
	c.sampler.makeIntervals()
	fillLists(reflect.ValueOf(d).Elem())
	return d, d.check()
}

// meeting is the cells of two policies that may be pooled, with the places that they share.
type meeting struct {
	start    string // of all cells
	grid     *grid
	pairs    []pair
	unpaired []CellRef
}

// meetings returns the warmed and the cold cells of two policies, if there are any.
func (c *comparer) meetings(a, b string) (all []meeting, err error) {
	wrap := func(err error) error { return fmt.Errorf("compare %s with %s: %w", a, b, err) }
	if err := c.checkPair(a, b); err != nil {
		return nil, wrap(err)
	}
	for _, start := range []string{warmedStart, result.ColdStart} {
		cells, err := c.cells(a, b, start == result.ColdStart)
		if err != nil {
			return nil, wrap(err)
		}
		if len(cells) == 0 {
			continue
		}
		m := meeting{start: start}
		if m.grid, err = newGrid(cells, c.sampler); err != nil {
			return nil, wrap(err)
		}
		if err := checkOptimum(cells); err != nil {
			return nil, wrap(err)
		}
		m.pairs, m.unpaired = pairsOf(cells, a, b)
		all = append(all, m)
	}
	return all, nil
}

// labels returns those of the traces of the places.
func (m *meeting) labels() result.Labels {
	traces := slice.Group(m.pairs, func(p *pair) string { return p.at.Trace })
	return result.SharedLabels(slice.Map(traces, func(of []pair) result.Labels { return of[0].labels() }), "traces")
}

// checkPair rejects two policies that cannot be compared by misses.
func (c *comparer) checkPair(a, b string) error {
	if a == b {
		return errors.New("both names are the same policy: name two policies")
	}
	for _, name := range []string{a, b} {
		if c.samples[name] == nil {
			return &UnknownPolicy{name, c.known()}
		}
	}
	switch lossyA, lossyB := c.samples[a].Lossy, c.samples[b].Lossy; {
	case lossyA && lossyB:
		return fmt.Errorf("%s and %s are lossy and have no misses: kvreplay leaderboard compares their recall", a, b)
	case lossyA != lossyB:
		return fmt.Errorf("%s is %s and %s is %s: misses of exact and lossy policies cannot be compared", a, kindOf(lossyA), b, kindOf(lossyB))
	}
	return nil
}

// check rejects a comparison without cells.
func (c *Comparison) check() error {
	if slices.ContainsFunc(c.Groups, func(g ComparedGroup) bool { return g.Pooled != nil }) {
		return nil
	}
	var ran []CellRef
	for _, g := range c.Groups {
		ran = append(ran, g.Unpaired...)
	}
	if len(c.Groups) > 1 {
		return fmt.Errorf("compare %s with %s: one has only warmed caches where the other has only cold starts: replay both with the same --warmup", c.A, c.B)
	}
	return fmt.Errorf("compare %s with %s: no trace and capacity has rows of both, only %s: replay both at the same capacities (one without capacity: in one run with lru or opt)", c.A, c.B, refsText(ran))
}

// pair is the cells of A and B at one place.
type pair struct {
	at   CellRef
	a, b *cell
}

func (p pair) hasRatio() bool { return p.a.total.misses > 0 && p.b.total.misses > 0 }

// labels returns those of both cells of the pair, with that of an oracle policy.
func (p pair) labels() result.Labels {
	return result.ParseLabels(p.a.sample.Labels).With(result.ParseLabels(p.b.sample.Labels)...)
}

// group compares over the cells of a meeting.
func (c *Comparison) group(m meeting) (g ComparedGroup) {
	for _, p := range m.pairs {
		contest := c.contest(m.grid, []pair{p})
		contest.CellRef, contest.Labels = p.at, p.labels()
		g.Cells = append(g.Cells, contest)
	}
	if len(m.pairs) > 0 {
		pooled := c.contest(m.grid, m.pairs)
		g.Pooled = &pooled
	}
	g.Start, g.Unpaired, g.Notes, g.Labels = m.start, m.unpaired, c.notes(m.pairs, m.unpaired), m.labels()
	return g
}

// pairsOf returns the places at which both policies ran, sorted. A policy without capacity is compared at its
// own peak, which other policies can have as capacity. No other pair is compared at a peak.
func pairsOf(cells []*cell, a, b string) (pairs []pair, unpaired []CellRef) {
	places := map[CellRef]pair{}
	for _, one := range cells {
		at := one.ref()
		if at.Capacity == "" {
			at.Capacity = result.PeakPrefix + one.policy
		}
		if !one.onBoard() && at.Capacity != result.PeakPrefix+a && at.Capacity != result.PeakPrefix+b {
			continue
		}
		p := places[at]
		p.at = at
		if one.policy == a {
			p.a = one
		} else {
			p.b = one
		}
		places[at] = p
	}
	for at, p := range places {
		if p.a != nil && p.b != nil {
			pairs = append(pairs, p)
		} else {
			unpaired = append(unpaired, at)
		}
	}
	slice.Sort(pairs, func(p, q pair) int { return compareRefs(p.at, q.at) })
	slice.Sort(unpaired, compareRefs)
	return pairs, unpaired
}

// contest computes the figures and the test over the pairs.
func (c *Comparison) contest(g *grid, pairs []pair) Contest {
	d := figuresOf(g, pairs)
	if cells := sidesOf(withRatio(pairs)); d.Requests != nil && cells != nil {
		d.P = Number(newSwaps(c.Seed, cells).p(cells, logRatio))
	}
	d.decide(c.A, c.B, d.P, 1)
	return d
}

// figuresOf returns the figures over the pairs, without the test.
func figuresOf(g *grid, pairs []pair) Contest {
	d := Contest{Cells: len(pairs)}
	exchanged := make([]pair, len(pairs))
	for i, p := range pairs {
		d.MissesA += p.a.total.misses
		d.MissesB += p.b.total.misses
		exchanged[i] = pair{p.at, p.b, p.a}
	}
	if d.Ratio = ratioOf(g, pairs); d.Ratio == nil {
		d.Inverse = ratioOf(g, exchanged)
	}
	d.Requests = vote(pairs, requestMisses)
	d.Streams = vote(pairs, streamMisses)
	return d
}

// withRatio returns the pairs of a ratio: a single one, or those in which both miss.
func withRatio(pairs []pair) []pair {
	if len(pairs) < 2 {
		return pairs
	}
	return slice.Filter(pairs, pair.hasRatio)
}

// sidesOf returns the misses of pairs, nil without rows by request.
func sidesOf(pairs []pair) (cells []sides) {
	for _, p := range pairs {
		if p.a.requests == nil || p.b.requests == nil {
			return nil
		}
		a, b := perRequest[float64](p.a, (*counts).countMisses), perRequest[float64](p.b, (*counts).countMisses)
		cells = append(cells, sides{p.at.Trace, a, b})
	}
	return cells
}

// ratioOf returns A's misses ÷ B's. Both take the same resamples.
func ratioOf(g *grid, pairs []pair) *Figure {
	pairs = withRatio(pairs)
	p := g.over(slice.Map(pairs, func(p pair) CellRef { return p.at }))
	a, b := &series{}, &series{}
	for _, p := range pairs {
		a.cells, b.cells = append(a.cells, p.a), append(b.cells, p.b)
	}
	return p.entry(a, b).ratio(b)
}

// byPart is misses by part of a cell: by request, or by stream.
type byPart map[result.Part]int64

// requestMisses returns a cell's misses by request, nil if rows are pooled over requests.
func requestMisses(c *cell) byPart {
	if c.requests == nil {
		return nil
	}
	by := byPart{}
	for i, t := range c.requests {
		by[result.Part{Request: c.work.ids[i]}] = t.misses
	}
	return by
}

// streamMisses returns a cell's misses by stream, from rows of `replay --per stream`.
func streamMisses(c *cell) byPart {
	by := byPart{}
	for _, n := range c.parts {
		if n.part.Request != "" && n.alone {
			by[n.part] = n.misses
		}
	}
	return by
}

// vote counts one vote for every part of the pairs, and the same part of a trace once. It returns
// nil if a pair lacks the parts of one side.
func vote(pairs []pair, missesOf func(*cell) byPart) *Votes {
	type voter struct {
		trace string
		part  result.Part
	}
	lead := map[voter]int64{} // A's misses less B's
	for _, p := range pairs {
		a, b := missesOf(p.a), missesOf(p.b)
		if len(a) == 0 || len(a) != len(b) {
			return nil
		}
		for part, n := range a {
			m, both := b[part]
			if !both {
				return nil
			}
			lead[voter{p.at.Trace, part}] += n - m
		}
	}
	v := &Votes{Count: len(lead)}
	for _, d := range lead {
		switch {
		case d < 0:
			v.Wins++
		case d > 0:
			v.Losses++
		default:
			v.Ties++
		}
	}
	return v
}

// outcome is the decision of the requests in a contest.
type outcome int

const (
	unknown   outcome = iota // rows are pooled over requests
	tooFew                   // no outcome could be significant
	undecided                // not significant
	decided
)

// outcome interprets p, which Holm corrected for a number of tests.
func (d *Contest) outcome(p *float64, tests int) outcome {
	switch {
	case p == nil:
		return unknown
	case *p < Significant:
		return decided
	case !decidable(d.Requests.Count, tests):
		return tooFew
	}
	return undecided
}

// decide names the better of A and B if p decides. Holm corrected p for a number of tests.
func (d *Contest) decide(a, b string, p *float64, tests int) {
	switch {
	case d.outcome(p, tests) != decided:
		d.Better = nil
	case d.Ratio != nil && d.Ratio.Value < 1:
		d.Better = &a
	default:
		d.Better = &b
	}
}

// contradicts reports whether only one of the interval and p decides: the interval excludes 1, or p
// is significant.
func (d *Contest) contradicts(p *float64, tests int) bool {
	f := d.Ratio
	if d.Inverse != nil {
		f = d.Inverse
	}
	is := d.outcome(p, tests)
	if !f.Bounded() || is != decided && is != undecided {
		return false
	}
	excludes1 := *f.Low > 1 || f.High != nil && *f.High < 1
	return excludes1 != (is == decided)
}
