package card

import (
	"github.com/kvreplay/kvreplay/trace/locality"
)

// cellName is a policy at a capacity that is replayed on every trace.
type cellName struct{ policy, capacity string }

// cells are replayed on every trace that can serve them: LRU over the capacities at which
// a window of few steps is kept, at ESS's Sparse Memory Ratio 0.2 (Fig. 5), and KVDrive's
// policies at its window of 2 (Table 3) with the optimum.
var cells = [...]cellName{
	{"lru", "1.25x"}, {"lru", "1.5x"}, {"lru", "2x"}, {"lru", "3x"}, {"lru", "4x"}, {"lru", "0.2ctx"},
	{"lookahead", "2x"}, {"opt", "2x"},
}

// multiples are the cells of LRU at a multiple of K, with the multiple.
var multiples = []struct {
	cell int
	of   float64
}{{0, 1.25}, {1, 1.5}, {2, 2}, {3, 3}, {4, 4}}

const (
	lru2, lru3, lruESS, look2, opt2 = 2, 3, 5, 6, 7
)

// facts are counts of one stream or of many, pooled as sums.
type facts struct {
	streams  int64
	locality locality.Counts
	// next[r] of from[r] blocks at rank r of a step's list are in the demand of the next step.
	next, from []int64
	covered    float64 // sum of covered mass over massRows rows
	massRows   int64
	// predictedHits of predictedOf demanded blocks were predicted a layer ahead.
	predictedHits, predictedOf int64
	cells                      [len(cells)]replayed
}

// replayed is what a cell counts.
type replayed struct{ steps, demand, misses int64 }

func (f *facts) add(o *facts) {
	f.streams += o.streams
	f.locality.Add(&o.locality)
	f.next, f.from = sum(f.next, o.next), sum(f.from, o.from)
	f.covered, f.massRows = f.covered+o.covered, f.massRows+o.massRows
	f.predictedHits, f.predictedOf = f.predictedHits+o.predictedHits, f.predictedOf+o.predictedOf
	for i := range f.cells {
		f.cells[i].steps += o.cells[i].steps
		f.cells[i].demand += o.cells[i].demand
		f.cells[i].misses += o.cells[i].misses
	}
}

func sum(a, b []int64) []int64 {
	for len(a) < len(b) {
		a = append(a, 0)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// share is a ÷ b, absent where b is 0.
type share struct {
	v  float64
	ok bool
}

func ratio(a, b int64) share {
	if b == 0 {
		return share{}
	}
	return share{float64(a) / float64(b), true}
}

func (f *facts) overlap() share { return ratio(f.locality.Common, f.locality.After) }
func (f *facts) hits(cell int) share {
	return ratio(f.cells[cell].demand-f.cells[cell].misses, f.cells[cell].demand)
}
func (f *facts) predicted() share { return ratio(f.predictedHits, f.predictedOf) }

// missesAStep is of a stream.
func (f *facts) missesAStep(cell int) share { return ratio(f.cells[cell].misses, f.cells[cell].steps) }

func (f *facts) mass() share {
	if f.massRows == 0 {
		return share{}
	}
	return share{f.covered / float64(f.massRows), true}
}

// nextTopK is the share of a step's demand that the first m blocks of the list before it hold.
func (f *facts) nextTopK(m int) share {
	var hits int64
	for _, n := range f.next[:min(m, len(f.next))] {
		hits += n
	}
	return ratio(hits, f.locality.After)
}

// stays is the share of blocks at ranks [from, to) that the next step demands.
func (f *facts) stays(from, to int) share {
	var hits, of int64
	for r := max(0, from); r < min(to, len(f.next)); r++ {
		hits, of = hits+f.next[r], of+f.from[r]
	}
	return ratio(hits, of)
}

// keptFor is the share of the demand, after a stream's first step, that one of the n
// steps before demanded: what a cache of the last n steps' demand hits.
func (f *facts) keptFor(n int) share {
	hits := f.locality.Common
	for gap, count := range f.locality.Gaps {
		if gap <= n {
			hits += count
		}
	}
	return ratio(hits, f.locality.After)
}

// workingSet is the mean number of distinct blocks of locality.Windows[w] steps, over K.
func (f *facts) workingSet(w int) share {
	set, demand := ratio(f.locality.WorkingSet[w], f.locality.WorkingSteps[w]), ratio(f.locality.Demand, f.locality.Steps)
	if !set.ok || !demand.ok || demand.v == 0 {
		return share{}
	}
	return share{set.v / demand.v, true}
}
