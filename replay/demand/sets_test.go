package demand

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// writeMembers lists the members of sets of every density, behind other blocks and raised by a base.
func TestMembersOfSets(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 22))
		set := make([]uint64, r.IntN(9))
		var want []int32
		for x := range int32(64 * len(set)) {
			if r.IntN(64) < int(seed%65) {
				set[x>>6] |= 1 << (x & 63)
				want = append(want, x)
			}
		}
		before := []int32{7, 8}
		if got := appendMembers(slices.Clone(before), set); !slices.Equal(got, append(before, want...)) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		raised := make([]int32, len(want)+spare)
		if n := writeMembers(raised, 100, set, len(want)); n != len(want) {
			t.Fatalf("seed %d: %d members, want %d", seed, n, len(want))
		}
		for i, x := range want {
			if raised[i] != 100+x {
				t.Fatalf("seed %d: member %d at base 100 is %d, want %d", seed, i, raised[i], 100+x)
			}
		}
	}
}
