package referee

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Observed is what LRU caches of some sizes, in blocks, would miss of a stream in every
// interval of so many decode steps: what budgets that change are settled by. It is
// counted by the definition: a block is resident in a cache of so many blocks where no
// more than that, itself included, were used since; what D_{t-1} demanded counts as used
// last, and what is born with the step is resident.
func Observed(heads []*trace.Stream, hasRanks bool, c Config, every int, sizes []int) (map[int][]int64, error) {
	x, _, err := newCell([][]*trace.Stream{heads}, hasRanks, c)
	if err != nil {
		return nil, err
	}
	misses := map[int][]int64{}
	lastUse := map[int32]int{}
	var before []int32
	for row := x.first; row < len(x.rows); row++ {
		t, interval := x.time(row), int(x.rows[row].step)/every
		born, demand := setOf(x.births(row, row == x.first)), x.demand(row)
		depths := depths(lastUse, before)
		for _, b := range demand {
			needed, known := depths[b]
			if !known {
				needed = math.MaxInt
			}
			if born[b] || t < 0 {
				continue
			}
			for i, size := range sizes {
				if misses[interval] == nil {
					misses[interval] = make([]int64, len(sizes))
				}
				if needed > size {
					misses[interval][i]++
				}
			}
		}
		if t >= 0 && misses[interval] == nil {
			misses[interval] = make([]int64, len(sizes))
		}
		for b := range born {
			lastUse[b] = t - 1
		}
		for _, b := range demand {
			lastUse[b] = t
		}
		before = demand
	}
	return misses, nil
}

// depths are the least sizes of LRU caches that hold each block: none for what D_{t-1}
// demanded, and the others by recency, of one step the highest block last to go.
func depths(lastUse map[int32]int, before []int32) map[int32]int {
	depth := map[int32]int{}
	var others []int32
	recent := setOf(before)
	for b := range lastUse {
		if recent[b] {
			depth[b] = 0
		} else {
			others = append(others, b)
		}
	}
	slices.SortFunc(others, func(a, b int32) int {
		return -cmp.Or(cmp.Compare(lastUse[a], lastUse[b]), cmp.Compare(a, b))
	})
	for i, b := range others {
		depth[b] = len(before) + 1 + i
	}
	return depth
}
