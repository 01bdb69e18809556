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

// A Sorter sorts as package slices does, lists of every density, one after the other.
func TestSorter(t *testing.T) {
	var s Sorter
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 23))
		blocks := 1 + r.IntN(2000)
		s.Reset(blocks)
		for range 3 {
			var list []int32
			from, most := r.IntN(blocks), r.IntN(blocks)
			for _, x := range r.Perm(blocks - from)[:min(most, blocks-from)] {
				list = append(list, int32(from+x))
			}
			want := slices.Sorted(slices.Values(list))
			if got := s.Sort(slices.Clip(list)); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
	}
}
