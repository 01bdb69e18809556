package snapkv

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The radix sort agrees with a plain sort, for many and for few scores, all signs and both zeros.
func TestRanking(t *testing.T) {
	few := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1e-30, -1e-30, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(1))}
	var r ranking
	var got []int32
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		first := rng.Int32N(5)
		scores := make([]float32, rng.IntN(400))
		for i := range scores {
			if scores[i] = float32(rng.NormFloat64()); seed%2 == 0 {
				scores[i] = few[rng.IntN(len(few))]
			}
		}
		var want []int32
		for i := range scores {
			want = append(want, first+int32(i))
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(scores[a-first], scores[b-first]) })
		if got = r.rank(first, scores, got); !slices.Equal(got, want) {
			t.Fatalf("seed %d: scores %v from block %d are ranked %v, want %v", seed, scores, first, got, want)
		}
	}
}
