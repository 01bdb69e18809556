package cache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// appendUnion gives the same list as a sort.
func TestAppendUnion(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		var lists [2][]int32
		want := []int32{7}
		for x := range int32(r.IntN(50)) {
			if in := r.IntN(3); in < 2 {
				lists[in], want = append(lists[in], x), append(want, x)
			}
		}
		if got := appendUnion([]int32{7}, lists[0], lists[1]); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v and %v give %v", seed, lists[0], lists[1], got)
		}
	}
}
