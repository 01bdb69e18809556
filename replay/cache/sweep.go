package cache

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/demand"
)

// Sweep replays a stack policy on a stream at all capacities in one pass. It simulates no capacity
// and does not use the step machine. The policy computes stack distances and numbers of resident
// blocks. The sweep derives from them every count of a single run.
type Sweep struct {
	Pass   policies.Sweep // the pass of the policy
	needs  policies.Needs
	ranks  bool // lists are in rank order
	step   policies.Step
	change demand.Change

	distances []int32
	resident  []int32 // resident blocks after the step, by size
	before    []int32 // resident blocks before the first counted step, by size
	at        []int32 // number of counted blocks by distance. The last element counts all larger distances
	missed    []int64 // misses, by size
	sums      []int64 // sums of resident over the counted steps, by size
	peaks     []int32 // maxima of resident over the counted steps, by size
	counts    []Counts
}

// NewSweep returns a sweep of p, or nil if p is no Sweeper.
func NewSweep(p policies.Policy) *Sweep {
	pass := policies.SweepOf(p)
	if pass == nil {
		return nil
	}
	return &Sweep{Pass: pass, needs: policies.NeedsOf(p)}
}

// Run returns the counts of a view at each of sizes, which must ascend. The counts are valid until
// the next call.
func (w *Sweep) Run(v demand.View, sizes []int32, at Start) ([]Counts, error) {
	if err := w.reset(v, sizes, at.Seed); err != nil {
		return nil, err
	}
	w.ranks = at.Ranks
	x := v.Size()
	for i := range x.Rows {
		w.load(v, i)
		w.distances = w.Pass.Distances(&w.step, w.distances[:0])
		switch {
		case i >= x.Windows:
			w.count(sizes)
		case i == x.Windows-1:
			w.before = w.Pass.Residents(sizes, w.before[:0])
		}
	}
	w.finish(v, sizes, at.Unit)
	return w.counts, nil
}

func (w *Sweep) reset(v demand.View, sizes []int32, seed uint64) error {
	x := v.Size()
	w.at = policies.Fill(w.at, max(x.Blocks, x.Rows)+2, 0) // distances are numbers of blocks or of steps
	w.counts = policies.Fill(w.counts, len(sizes), Counts{Streams: 1})
	w.sums, w.peaks = policies.Fill(w.sums, len(sizes), 0), policies.Fill(w.peaks, len(sizes), 0)
	w.before = policies.Fill(w.before, len(sizes), 0)
	w.resident = policies.Fill(w.resident, len(sizes), 0)
	most := int(sizes[len(sizes)-1])
	return w.Pass.Reset(&policies.Scope{Blocks: x.Blocks, Capacity: most, Steps: x.Rows, Windows: x.Windows, Demand: x.MaxDemand, Seed: seed}, sizes)
}

// load fills the step with row i. Births arrive before the step is classified (SEMANTICS S3), so a
// birth that the step demands is a hit at every size. Births are the last blocks before the local
// window, and demand does not reach into it. Every block that enters from the first birth on is
// therefore a birth.
func (w *Sweep) load(v demand.View, i int) {
	s := &w.step
	v.Change(i, &w.change)
	enter, born := w.change.Enter, w.change.Born
	known := len(enter)
	if len(born) > 0 {
		known, _ = slices.BinarySearch(enter, born[0])
	}
	s.T, s.Demand = int32(i-v.Size().Windows), w.change.Demand
	s.Hit, s.Miss, s.Exit, s.Offered = enter[known:], enter[:known], w.change.Exit, born
	if w.needs&policies.NeedDemand != 0 {
		s.Members = v.Members(i)
	}
	if w.needs&policies.NeedCandidates != 0 || w.needs&policies.WantCandidates != 0 && w.ranks {
		s.Candidates = v.Candidates(i)
	}
}

// note counts the distances of a counted step.
func (w *Sweep) note() {
	at := w.at
	for _, n := range w.distances {
		at[min(int(n), len(at)-1)]++
	}
}

// misses returns the number of noted blocks that miss at each of sizes. It reuses the memory of
// counts.
func (w *Sweep) misses(sizes []int32, counts []int64) []int64 {
	counts = policies.Fill(counts, len(sizes), 0)
	sum, n := int64(0), len(w.at)-1
	for j := len(sizes) - 1; j >= 0; j-- {
		for least := min(int(sizes[j]), len(w.at)-2); n > least; n-- {
			sum += int64(w.at[n])
		}
		counts[j] = sum
	}
	return counts
}

// count adds a counted step.
func (w *Sweep) count(sizes []int32) {
	w.note()
	w.resident = w.Pass.Residents(sizes, w.resident[:0])
	sums, peaks := w.sums[:len(w.resident)], w.peaks[:len(w.resident)]
	for j, n := range w.resident {
		sums[j] += int64(n)
		peaks[j] = max(peaks[j], n)
	}
}

// finish derives the counts at each size. Evictions are the arrived blocks less the growth of the
// resident blocks.
func (w *Sweep) finish(v demand.View, sizes []int32, unit int64) {
	var stream Counts // the same at every size
	x := v.Size()
	for i := x.Windows; i < x.Rows; i++ {
		v.Change(i, &w.change)
		stream.Steps++
		stream.Positions += int64(w.change.Positions)
		stream.Demand += int64(w.change.Demand)
		stream.Births += int64(len(w.change.Born))
	}
	w.missed = w.misses(sizes, w.missed)
	for j, misses := range w.missed {
		c := &w.counts[j]
		c.Steps, c.Demand, c.Births, c.Misses = stream.Steps, stream.Demand, stream.Births, misses
		c.Positions, c.Moved, c.PinnedPeak = stream.Positions, misses*unit, int64(x.PinnedPeaks[0])*unit
		c.ResidentSum, c.ResidentPeak = w.sums[j], int64(w.peaks[j])
		if stream.Steps > 0 {
			c.Evictions = stream.Births + misses - int64(w.resident[j]-w.before[j])
		}
	}
}

// StackCounter counts the misses of LRU caches of several sizes in one pass over a stream.
type StackCounter struct{ sweep Sweep }

// NewStackCounter returns a counter, which may be used for one stream after the other.
func NewStackCounter() *StackCounter {
	return &StackCounter{sweep: *NewSweep(new(lru.Policy))}
}

// Misses returns the misses of a stream by interval of decode steps, then by size. every is the
// length of an interval. sizes are in blocks and must ascend.
func (w *StackCounter) Misses(v demand.View, every int, sizes []int32) (map[int][]int64, error) {
	s := &w.sweep
	if err := s.reset(v, sizes, 0); err != nil {
		return nil, err
	}
	misses := map[int][]int64{}
	x := v.Size()
	for i := range x.Rows {
		s.load(v, i)
		s.distances = s.Pass.Distances(&s.step, s.distances[:0])
		if i < x.Windows {
			continue
		}
		s.note()
		interval := int(v.Step(i)) / every
		if i+1 == x.Rows || int(v.Step(i+1))/every != interval {
			misses[interval] = s.misses(sizes, nil)
			clear(s.at)
		}
	}
	return misses, nil
}
