package lru2_test

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/submissions/lru2"
)

// reference is LRU-2 by its definition: the list of all uses of every block.
type reference struct {
	uses    map[int32][]int64
	staying []int32 // blocks of the last demand that stayed resident
}

func (r *reference) Reset(policies.Scope) { r.uses, r.staying = map[int32][]int64{}, nil }

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.uses[x] = append(r.uses[x], int64(s.T)-1)
	}
	for _, x := range s.Demand {
		if slices.Contains(r.staying, x) {
			r.uses[x][len(r.uses[x])-1] = int64(s.T) // the stay goes on
		} else {
			r.uses[x] = append(r.uses[x], int64(s.T))
		}
	}
	r.staying = slices.DeleteFunc(slices.Clone(s.Demand), func(x int32) bool { return slices.Contains(s.Pass, x) })
}

// back returns the n-th last use, before all steps if there are fewer uses.
func (r *reference) back(n int) func(x int32) int64 {
	return func(x int32) int64 {
		if u := r.uses[x]; len(u) >= n {
			return u[len(u)-n]
		}
		return -1 << 40
	}
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.back(2), r.back(1))
}

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, lru2.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lru2.Entry, "", newReference) }

// A history worked out by hand: list, misses, victims.
func TestHistory(t *testing.T) {
	policytest.History(t, lru2.Entry, "", `
capacity 3
1 | 1 |
2 | 2 |
1 |   |   # second stay of 1
3 | 3 |
4 | 4 | 2 # 2 and 3 have one use, and 2's is earlier
5 | 5 | 3 # one use, before that of 4. 1 has two
4 |   |
6 | 6 | 5 # 4 is leaving its second stay
7 | 7 | 6 # 1 has used twice, at T = 0 and 2
8 | 8 | 7
`)
}
