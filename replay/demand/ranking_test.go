package demand

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveRanks merges parts rank by rank, one block at a time.
func naiveRanks(parts []rankedPart[int32]) (merged []int32) {
	for rank, more := 0, true; more; rank++ {
		more = false
		for _, p := range parts {
			if rank >= len(p.list) {
				continue
			}
			more = true
			if rank >= p.from {
				merged = append(merged, p.base+p.list[rank])
			}
		}
	}
	return merged
}

// mergeRanks and naiveRanks agree on parts of any lengths and first ranks.
func TestMergeRanks(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 21))
		parts := make([]rankedPart[int32], r.IntN(7))
		for n := range parts {
			p := &parts[n]
			p.list, p.base = make([]int32, r.IntN(300)), r.Int32N(1000)
			for i := range p.list {
				p.list[i] = r.Int32N(1000)
			}
			if r.IntN(3) == 0 {
				p.from = r.IntN(len(p.list) + 1)
			}
		}
		before := []int32{7, 8}
		got, want := mergeRanks(slices.Clone(before), parts), append(before, naiveRanks(parts)...)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: merged %v, literally %v", seed, got, want)
		}
	}
}
