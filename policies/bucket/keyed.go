package bucket

import (
	"cmp"
	"math/bits"
	"slices"
)

// Keyed is an id to be sorted by two numbers. No two ids share both.
type Keyed struct {
	Key, Tie uint64
	ID       int32
}

// few is the largest number of ids for which comparing each pair is faster than sorting. Comparing
// pairs costs no mispredicted branch.
const few = 32

// Sort orders ids by Key, then by Tie.
func Sort(ids []Keyed) {
	if len(ids) > few {
		slices.SortFunc(ids, func(a, b Keyed) int {
			if a.Key != b.Key {
				return cmp.Compare(a.Key, b.Key)
			}
			return cmp.Compare(a.Tie, b.Tie)
		})
		return
	}
	var sorted [few]Keyed
	for i := range ids {
		x, rank := &ids[i], uint64(0)
		for j := range ids {
			_, less := bits.Sub64(ids[j].Tie, x.Tie, 0)
			_, less = bits.Sub64(ids[j].Key, x.Key, less)
			rank += less
		}
		sorted[rank%few] = *x
	}
	copy(ids, sorted[:])
}
