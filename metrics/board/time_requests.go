package board

import (
	"math"
	"slices"
)

// requestTimes divides a cell's time among its requests, so that it is their sum. A
// request's share is the time at its own rate of misses, weighed by its steps. Times
// between the fewest and the most misses of a request are interpolated: on a sequential
// schedule they are linear in misses.
func (g *grid) requestTimes(c *cell) []float64 {
	counts := make([]float64, len(c.requests)) // misses at each request's rate, in the steps of the cell
	for i, t := range c.requests {
		counts[i] = float64(t.misses) * float64(c.total.steps) / float64(max(1, t.steps))
	}
	fewest, most := math.Floor(slices.Min(counts)), math.Ceil(slices.Max(counts))
	slope := 0.0
	if fewest < most {
		slope = (g.clock.timeAt(c, most) - g.clock.timeAt(c, fewest)) / (most - fewest)
	}
	times := make([]float64, len(counts))
	for i, n := range counts {
		share := float64(c.requests[i].steps) / float64(max(1, c.total.steps))
		times[i] = share * (g.clock.time(c) + slope*(n-float64(c.total.misses)))
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
