package bucket

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Radix selection agrees with sorting, for few and for many keys.
func TestLowest(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := make([]Ranked, r.IntN(300))
		for i := range list {
			list[i] = Ranked{Key: math.Float64bits(r.Float64()), ID: int32(i)}
			if seed%2 == 0 {
				list[i].Key = uint64(r.IntN(9))
			}
		}
		n := r.IntN(len(list) + 1)
		byKey := slices.Clone(list)
		slices.SortStableFunc(byKey, func(a, b Ranked) int { return cmp.Compare(a.Key, b.Key) })
		tied, more, got := Lowest(slices.Clone(list), n, nil)
		if len(got)+more != n || more > len(tied) {
			t.Fatalf("seed %d: %d of %d found, %d more of %d", seed, len(got), n, more, len(tied))
		}
		slices.Sort(got)
		for _, r := range byKey[:len(got)] {
			if _, ok := slices.BinarySearch(got, r.ID); !ok {
				t.Fatalf("seed %d: block %d is not among the lowest %d", seed, r.ID, n)
			}
		}
		for _, r := range tied {
			if r.Key != byKey[n-1].Key {
				t.Fatalf("seed %d: key %d is not that of the last, %d", seed, r.Key, byKey[n-1].Key)
			}
		}
	}
}
