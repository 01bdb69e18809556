// Package brute finds the least number of misses over all choices of evictions, on a stream of a
// few blocks. It uses no eviction order, and it has its own code for births, pins and demands. So
// it can check the optimum of the referee and of the fast engine (S9).
package brute

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// MaxBlocks is the largest context that MinMisses searches, in blocks. The time per step grows with
// 3^blocks.
const MaxBlocks = 16

// set is a set of blocks, one bit each.
type set uint32

func (s set) len() int { return bits.OnesCount32(uint32(s)) }

// step holds the births and the demand of one recorded step.
type step struct {
	born    set
	demand  []int32 // in list order
	counted bool

	capacity int
}

// MinMisses returns the least number of misses in counted steps over all ways to evict, with the
// stream, capacity and warm-up of the cell. It ignores c.Policy, but c must have a capacity.
// Without bypass, D_t stays, except that an overflow drops blocks by S5. With bypass, any C of the
// available blocks may stay.
func MinMisses(s *trace.Stream, hasRanks bool, c referee.Config, bypass bool) (int, error) {
	if n := (s.MaxSeqLen() + c.BlockTokens - 1) / c.BlockTokens; n > MaxBlocks {
		return 0, fmt.Errorf("brute: a context of %d blocks, expected at most %d", n, MaxBlocks)
	}
	steps, err := plan(s, c)
	if err != nil {
		return 0, err
	}
	placed, err := referee.Placed(s, c)
	if err != nil {
		return 0, err
	}
	best := map[set]int{setOf(placed): 0} // residents → least number of misses so far
	for _, st := range steps {
		best = advance(best, st, hasRanks, st.capacity, bypass)
	}
	return least(best), nil
}

// advance tries every set that each reachable cache can keep after a step.
func advance(best map[set]int, st step, hasRanks bool, capacity int, bypass bool) map[set]int {
	next := map[set]int{}
	demand := setOf(st.demand)
	for resident, misses := range best {
		resident |= st.born
		if st.counted {
			misses += (demand &^ resident).len()
		}
		must, may := demand, resident&^demand
		switch {
		case bypass:
			must, may = 0, resident|demand
		case demand.len() > capacity:
			must, may = kept(st.demand, hasRanks, capacity), 0
		}
		for some := may; ; some = (some - 1) & may { // every subset of may
			if keep := must | some; keep.len() <= capacity {
				if old, seen := next[keep]; !seen || misses < old {
					next[keep] = misses
				}
			}
			if some == 0 {
				break
			}
		}
	}
	return next
}

// kept returns the part of D_t that remains after an overflow: the best ranks, or the highest
// indices (S5).
func kept(demand []int32, hasRanks bool, capacity int) set {
	if hasRanks {
		return setOf(demand[:capacity])
	}
	d := slices.Clone(demand)
	slices.Sort(d)
	return setOf(d[len(d)-capacity:])
}

// plan lists the steps of the cell: the windows that it runs, and all counted steps.
func plan(s *trace.Stream, c referee.Config) ([]step, error) {
	first := slices.IndexFunc(s.Steps, func(n int32) bool { return n >= 0 })
	if first < 0 {
		first = len(s.Steps)
	}
	if c.Warmup.Kind == referee.WarmRun {
		if first -= c.Warmup.Windows; first < 0 {
			return nil, fmt.Errorf("brute: warm-up over %d windows, the stream has fewer", c.Warmup.Windows)
		}
	}
	var steps []step
	for row := first; row < len(s.Steps); row++ {
		before := free(c, s.SeqLen(row)-1)
		if row > first {
			before = free(c, s.SeqLen(row-1))
		}
		now := free(c, s.SeqLen(row))
		st := step{born: now &^ before, counted: s.Steps[row] >= 0, capacity: c.At(s.Steps[row])}
		list := s.List(row)
		for _, b := range list[:min(c.TopK, len(list))] {
			if now&setOf([]int32{b}) != 0 {
				st.demand = append(st.demand, b)
			}
		}
		steps = append(steps, st)
	}
	return steps, nil
}

// free returns the set of complete blocks without a pinned token.
func free(c referee.Config, seqLen int) set {
	pinned := func(token int) bool { return token < c.Sink || token >= seqLen-c.Local }
	var blocks []int32
	for b := 0; (b+1)*c.BlockTokens <= seqLen; b++ {
		whole := true
		for i := range c.BlockTokens {
			whole = whole && !pinned(b*c.BlockTokens+i)
		}
		if whole {
			blocks = append(blocks, int32(b))
		}
	}
	return setOf(blocks)
}

func setOf(blocks []int32) (s set) {
	for _, b := range blocks {
		s |= 1 << b
	}
	return s
}

func least(best map[set]int) int {
	fewest := -1
	for _, misses := range best {
		if fewest < 0 || misses < fewest {
			fewest = misses
		}
	}
	return fewest
}
