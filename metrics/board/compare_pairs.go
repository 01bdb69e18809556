package board

import (
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// pair is what A and B did at one place.
type pair struct {
	at   CellRef
	a, b *cell
}

// group compares over rows of both policies that are all warmed or all cold.
func (c *Comparison) group(rows []*result.Row) (g ComparedGroup, err error) {
	if err := result.CheckSettings(rows); err != nil {
		return g, err
	}
	cells, err := newCells(rows)
	if err != nil {
		return g, err
	}
	grid, err := newGrid(cells, c.Seed, c.Resamples)
	if err != nil {
		return g, err
	}
	if err := checkOptimum(rows, cells); err != nil {
		return g, err
	}
	pairs, unpaired := c.pairs(cells)
	streams := streamMisses(rows)
	for _, p := range pairs {
		contest := c.contest(grid, []pair{p}, streams)
		contest.CellRef, contest.Labels = p.at, p.labels()
		g.Cells = append(g.Cells, contest)
	}
	if len(pairs) > 0 {
		pooled := c.contest(grid, pairs, streams)
		g.Pooled = &pooled
	}
	g.Unpaired, g.Notes = unpaired, c.notes(pairs, unpaired)
	g.Labels = g.shared()
	return g, nil
}

// pairs finds the places where both ran, sorted. A policy without capacity stands at
// its own peak, which others can be given; no one else is compared at a peak.
func (c *Comparison) pairs(cells []*cell) (pairs []pair, unpaired []CellRef) {
	places := map[CellRef]pair{}
	for _, one := range cells {
		at := one.ref()
		if at.Capacity == "" {
			at.Capacity = result.PeakPrefix + one.policy
		}
		if !one.onBoard() && at.Capacity != result.PeakPrefix+c.A && at.Capacity != result.PeakPrefix+c.B {
			continue
		}
		p := places[at]
		p.at = at
		if one.policy == c.A {
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
	slices.SortFunc(pairs, func(p, q pair) int { return compareRefs(p.at, q.at) })
	slices.SortFunc(unpaired, compareRefs)
	return pairs, unpaired
}

// contest computes the figures over the pairs.
func (c *Comparison) contest(g *grid, pairs []pair, streams map[cellKey]byPart) Contest {
	d := Contest{Cells: len(pairs)}
	for _, p := range pairs {
		d.MissesA += p.a.total.misses
		d.MissesB += p.b.total.misses
	}
	if d.Ratio = ratioOf(g, pairs); d.Ratio == nil {
		d.Inverse = ratioOf(g, exchanged(pairs))
	}
	d.Requests = vote(pairs, requestMisses)
	d.Streams = vote(pairs, func(c *cell) byPart { return streams[cellKey{c.trace, c.policy, c.capacity}] })
	if d.Requests != nil {
		d.P = pairedP(c.Seed, pairs)
	}
	d.judge(c.A, c.B, d.P, 1)
	return d
}

// judge names the better of A and B if p decides. Holm corrected p for a number of tests.
func (d *Contest) judge(a, b string, p *float64, tests int) {
	switch {
	case d.outcome(p, tests) != decided:
		d.Better = nil
	case d.leads():
		d.Better = &a
	default:
		d.Better = &b
	}
}

// pairedP tests the log ratio of misses over the pairs; nil without rows by request. The
// cells are those of the ratio.
func pairedP(seed uint64, pairs []pair) *float64 {
	var cells []sides
	for _, p := range withRatio(pairs) {
		if p.a.requests == nil || p.b.requests == nil {
			return nil
		}
		cells = append(cells, sides{p.at.Trace, missAmounts(p.a), missAmounts(p.b)})
	}
	if cells == nil {
		return nil
	}
	return Number(newSwaps(seed, cells).p(cells, logRatio))
}

// withRatio keeps the pairs that a ratio is over: a single one, or those in which both miss.
func withRatio(pairs []pair) []pair {
	if len(pairs) < 2 {
		return pairs
	}
	return slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return !p.hasRatio() })
}

// ratioOf is A's misses ÷ B's with its interval. Both take the same resamples.
func ratioOf(g *grid, pairs []pair) *Figure {
	pairs = withRatio(pairs)
	points, refs := make([]point, len(pairs)), make([]CellRef, len(pairs))
	for i, p := range pairs {
		refs[i] = p.at
		points[i] = pointOf(misses(p.a), misses(p.b))
	}
	return estimate(timesOpt, points, resampledPairs(g, pairs), g.tail(refs))
}

// exchanged has B in the place of A.
func exchanged(pairs []pair) []pair {
	other := make([]pair, len(pairs))
	for i, p := range pairs {
		other[i] = pair{p.at, p.b, p.a}
	}
	return other
}

// pointOf makes B the yardstick, where boards have OPT.
func pointOf(a, b float64) point { return point{misses: a, opt: b} }

func (p pair) hasRatio() bool { return p.a.total.misses > 0 && p.b.total.misses > 0 }

// resampledPairs returns the points of every resample; nil where a trace has none.
func resampledPairs(g *grid, pairs []pair) [][]point {
	var all [][]point
	for i, p := range pairs {
		a, b := g.resampled(p.at.Trace, p.a), g.resampled(p.at.Trace, p.b)
		if a == nil || b == nil {
			return nil
		}
		if all == nil {
			all = pointsOf(len(a), len(pairs))
		}
		for r := range all {
			all[r][i] = pointOf(a[r], b[r])
		}
	}
	return all
}
