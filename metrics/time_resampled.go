package metrics

import (
	"math"
	"slices"
)

// resampledTPOT is the geometric mean of the cells' times in every resample of the
// requests; nil where one has no resamples.
func (g *grid) resampledTPOT(policy string, refs []CellRef) []float64 {
	var logs []float64
	for _, r := range refs {
		times := g.resampledTimes(g.at(r, policy))
		if times == nil {
			return nil
		}
		for b := range times {
			times[b] = math.Log(times[b]) / float64(len(refs))
		}
		logs = addSeries(logs, times)
	}
	for b := range logs {
		logs[b] = math.Exp(logs[b])
	}
	return logs
}

// resampledTimes are a cell's times in every resample: that of the cell and, for the
// misses a step that a resample has more or less, linear between the times of the fewest
// and of the most. On a sequential schedule times are linear in misses.
func (g *grid) resampledTimes(c *cell) []float64 {
	misses := g.resampled(c.trace, c)
	if misses == nil {
		return nil
	}
	steps := make([]int64, len(c.requests))
	for i, t := range c.requests {
		steps[i] = t.steps
	}
	ofSteps := g.draws[c.trace].sums(steps)
	counts := make([]float64, len(misses)) // in as many steps as the cell has
	for b := range counts {
		counts[b] = misses[b] * float64(c.total.steps) / max(1, ofSteps[b])
	}
	fewest, most := math.Floor(slices.Min(counts)), math.Ceil(slices.Max(counts))
	slope := 0.0
	if fewest < most {
		slope = (g.clock.timeAt(c, most) - g.clock.timeAt(c, fewest)) / (most - fewest)
	}
	times := make([]float64, len(counts))
	for b, n := range counts {
		times[b] = g.clock.time(c) + slope*(n-float64(c.total.misses))
	}
	return times
}

// timeAt is a cell's TPOT had it missed otherwise, and moved entries in proportion; NaN
// where it has none.
func (k *clock) timeAt(c *cell, misses float64) float64 {
	r := c.row()
	scale := misses / max(1, float64(r.Misses))
	scaled := func(n int64) int64 { return int64(math.Round(scale * float64(n))) }
	r.Misses = int64(misses)
	r.Hits, r.Prefetched, r.MovedEntries = r.Demand-r.Misses, scaled(r.Prefetched), scaled(r.MovedEntries)
	if r.HostToDeviceBytes != nil {
		bytes := scaled(*r.HostToDeviceBytes)
		r.HostToDeviceBytes = &bytes
	}
	t, err := k.timer.TPOT(r)
	if err != nil {
		return math.NaN()
	}
	return t
}
