// Package locality measures how the demand of a trace repeats. This limits the hits of any cache.
//
// The demand D_t of a step is the first K blocks of its list, pins included. Only counted steps
// (step ≥ 0) are measured, and windows do not count as earlier steps. If a trace skips steps,
// consecutive steps are consecutive rows.
//
//	overlap         Σ|D_t ∩ D_t−1| ÷ Σ|D_t| over the steps after a stream's first
//	jaccard         Σ|D_t ∩ D_t−1| ÷ Σ|D_t ∪ D_t−1|
//	first seen      demand at steps after the first that no earlier step demanded
//	working set     |D_t−w+1 ∪ … ∪ D_t|, mean over the steps that have w−1 before them
//	re-entry gap    t − a for a block demanded at a and next at t > a+1, in steps
//	reuse distance  distinct other blocks demanded in steps a+1 … t−1: 0 for t = a+1
//
// The reuse distance is LRU's stack distance with steps as batches. Without pins and births, a
// block with distance d hits in a cache of d + |D_a| blocks and misses in one of d. Counts are
// pooled over streams, and ratios are never averaged (SEMANTICS S7). Quantiles come from exact
// histograms.
package locality

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Windows are the numbers of steps over which working sets are measured.
var Windows = [...]int{1, 4, 16, 64}

// Analyzer measures streams one after the other and reuses its memory. Each goroutine needs its
// own.
type Analyzer struct {
	meta   *trace.Meta
	topK   int
	last   []int32 // step index of a block's last demand, -1 before the first
	number numbers
	bucket fenwick // blocks by their last demand
	within [len(Windows)]int64
	counts Counts
}

// New returns an analyzer of traces with metadata m whose demand is the first topK blocks.
func New(m *trace.Meta, topK int) *Analyzer { return &Analyzer{meta: m, topK: topK} }

// Stream measures one stream. The counts are valid until the next call.
func (a *Analyzer) Stream(s *trace.Stream) *Counts {
	a.reset(s)
	for i := s.Windows; i < s.Rows; i++ {
		list := s.List(i)
		demand := list[:min(a.topK, len(list))]
		a.step(i-s.Windows, a.places(demand))
		a.pinned(s.SeqLen(i), demand)
	}
	a.counts.Streams = 1
	for _, last := range a.last {
		if last >= 0 {
			a.counts.Distinct++
		}
	}
	return &a.counts
}

func (a *Analyzer) reset(s *trace.Stream) {
	blocks := a.meta.Blocks(s.MaxSeqLen())
	if a.number.reset(blocks > denseBlocks && blocks > 4*len(s.Indices)) {
		blocks = 0
	}
	a.last = slices.Grow(a.last[:0], blocks)[:blocks]
	for i := range a.last {
		a.last[i] = -1
	}
	a.bucket.reset(s.Rows - s.Windows)
	a.within = [len(Windows)]int64{}
	a.counts = Counts{Gaps: a.counts.Gaps[:0], Distances: a.counts.Distances[:0]}
}

// places returns the indices of a demand's blocks in a.last, valid until the next call.
func (a *Analyzer) places(demand []int32) []int32 {
	places := a.number.renumber(demand)
	for len(a.last) < len(a.number.known) {
		a.last = append(a.last, -1)
	}
	return places
}

// step counts the demand of the t-th counted step. demand holds places.
func (a *Analyzer) step(t int, demand []int32) {
	c := &a.counts
	before := c.Common
	previous := 0
	if t > 0 {
		previous = a.bucket.at(t - 1) // all of D_t−1, because no later step has demanded anything
	}
	a.slide(t)
	for _, x := range demand {
		a.recall(t, int(a.last[x]))
	}
	for _, x := range demand {
		if from := int(a.last[x]); from >= 0 {
			a.bucket.add(from, -1)
		}
		a.last[x] = int32(t)
	}
	a.bucket.add(t, len(demand))
	c.Steps++
	c.Demand += int64(len(demand))
	if t > 0 {
		c.After += int64(len(demand))
		c.Union += int64(previous+len(demand)) - (c.Common - before)
	}
	for w, length := range Windows {
		if t+1 >= length {
			c.WorkingSet[w] += a.within[w]
			c.WorkingSteps[w]++
		}
	}
}

// slide removes blocks from the working sets if their last demand is before the window of step t.
func (a *Analyzer) slide(t int) {
	for w, length := range Windows {
		if out := t - length; out >= 0 {
			a.within[w] -= int64(a.bucket.at(out))
		}
	}
}

// recall counts one block of step t that was last demanded at step from.
func (a *Analyzer) recall(t, from int) {
	c := &a.counts
	for w, length := range Windows {
		if from <= t-length || from < 0 {
			a.within[w]++
		}
	}
	switch {
	case from < 0 && t > 0:
		c.FirstSeen++
	case from < 0:
	case from == t-1:
		c.Common++
	default:
		c.Gaps.Add(t-from, 1)
		c.Distances.Add(a.bucket.sum(t)-a.bucket.sum(from+1), 1)
	}
}

// pinned counts the demand in the pinned regions. A block is pinned if any of its tokens is
// (SEMANTICS S2).
func (a *Analyzer) pinned(seqLen int, demand []int32) {
	sink, local, _ := a.meta.Pins()
	b := a.meta.BlockTokens
	for _, x := range demand {
		if first := int(x) * b; first < sink || first+b > seqLen-local {
			a.counts.Pinned++
		}
	}
}

// denseBlocks is the largest context, in blocks, with an array element per block. Tests make it
// smaller.
var denseBlocks = 1 << 20

// numbers gives blocks consecutive numbers from 0 in order of appearance, if a context has far more
// blocks than its lists hold. Otherwise a block is its own number.
type numbers struct {
	known map[int32]int32 // nil if blocks are their own numbers
	buf   []int32
}

// reset forgets all numbers. sparse selects consecutive numbers. It returns sparse.
func (n *numbers) reset(sparse bool) bool {
	n.known = nil
	if sparse {
		n.known = map[int32]int32{}
	}
	return sparse
}

// renumber returns the numbers of blocks, valid until the next call.
func (n *numbers) renumber(blocks []int32) []int32 {
	if n.known == nil {
		return blocks
	}
	n.buf = n.buf[:0]
	for _, b := range blocks {
		number, seen := n.known[b]
		if !seen {
			number = int32(len(n.known))
			n.known[b] = number
		}
		n.buf = append(n.buf, number)
	}
	return n.buf
}
