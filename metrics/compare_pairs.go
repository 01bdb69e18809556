package metrics

import "slices"

// pair is what A and B did at one place.
type pair struct {
	at   CellRef
	a, b *cell
}

// group compares over rows of both policies that are all warmed or all cold.
func (c *Comparison) group(rows []*Row) (g ComparedGroup, err error) {
	if err := checkSettings(rows); err != nil {
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
			at.Capacity = peakPrefix + one.policy
		}
		if !one.onBoard() && at.Capacity != peakPrefix+c.A && at.Capacity != peakPrefix+c.B {
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
		d.inverse = ratioOf(g, exchanged(pairs))
	}
	d.Requests = vote(pairs, requestMisses)
	d.Streams = vote(pairs, func(c *cell) byPart { return streams[cellKey{c.trace, c.policy, c.capacity}] })
	if d.Requests != nil && d.Requests.Count >= MinRequests {
		d.Requests.P = number(signTest(d.Requests.Wins, d.Requests.Losses))
	}
	switch d.verdict() {
	case -1:
		d.Better = &c.A
	case 1:
		d.Better = &c.B
	}
	return d
}

// ratioOf is A's misses ÷ B's with its interval. Both take the same resamples.
func ratioOf(g *grid, pairs []pair) *Figure {
	if len(pairs) > 1 { // one cell shows what it is; a mean is over those that have a ratio
		pairs = slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return !p.hasRatio() })
	}
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
