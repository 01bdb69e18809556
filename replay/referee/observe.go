package referee

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Observed returns the misses of LRU caches of some sizes, in blocks, on a stream. Each interval of
// decode steps, whose length is every, has its own counts. Changing budgets depend on them.
// Observed counts by the definition. A block is resident in a cache of n blocks if at most n
// blocks, itself included, were used since. The blocks of D_{t-1} count as used last. Births of the
// step are resident.
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

// depths returns the smallest LRU cache that holds each block: 0 for the blocks of D_{t-1}, and the
// others by recency. Among blocks of one step, the highest is evicted last.
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
