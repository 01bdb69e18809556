package twoq

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the paper's full version, given every demanded step of every block. Am runs from
// least to most recent. A1in and A1out run from first in to last in. Members of D_t are included.
type reference struct {
	shareIn, shareOut float64

	kin, kout       int
	am, a1in, a1out []int32
	inserted        map[int32]int32
	lastUse         map[int32]int32
	demand, fetched []int32 // fetched: into A1in at this step
}

func (r *reference) Reset(sc policies.Scope) {
	*r = reference{shareIn: r.shareIn, shareOut: r.shareOut, inserted: map[int32]int32{}, lastUse: map[int32]int32{}}
	r.kin, r.kout = policies.Part(r.shareIn, sc.Capacity), policies.Part(r.shareOut, sc.Capacity)
}

func drop(list []int32, x int32) []int32 {
	return slices.DeleteFunc(list, func(y int32) bool { return y == x })
}

func (r *reference) insert(x, t int32) {
	r.a1in = append(r.a1in, x)
	r.inserted[x] = t
}

// access is the paper's "on accessing a page X". reclaimfor comes later, for the whole step.
func (r *reference) access(x, t int32) {
	switch {
	case slices.Contains(r.am, x):
		r.am = append(drop(r.am, x), x)
	case slices.Contains(r.a1out, x):
		r.a1out = drop(r.a1out, x)
		r.am = append(r.am, x)
	case slices.Contains(r.a1in, x): // does nothing
	default:
		r.insert(x, t)
		r.fetched = append(r.fetched, x)
	}
	r.lastUse[x] = t
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.a1out = drop(r.a1out, x)
		r.insert(x, s.T-1)
		r.lastUse[x] = s.T - 1
	}
	r.demand, r.fetched = slices.Clone(s.Demand), nil
	for _, x := range r.demand {
		r.access(x, s.T)
	}
	for _, x := range s.Pass {
		r.a1in, r.am = drop(r.a1in, x), drop(r.am, x)
	}
}

// tail returns the next block to leave A1in: the earliest insertion, ties by last use, then index.
func (r *reference) tail() (int32, bool) {
	var free []int32
	for _, x := range r.a1in {
		if !slices.Contains(r.demand, x) {
			free = append(free, x)
		}
	}
	if len(free) == 0 {
		return 0, false
	}
	return slices.MinFunc(free, func(x, y int32) int {
		return cmp.Or(cmp.Compare(r.inserted[x], r.inserted[y]), cmp.Compare(r.lastUse[x], r.lastUse[y]), cmp.Compare(x, y))
	}), true
}

// reclaim does the paper's reclaimfor.
func (r *reference) reclaim() int32 {
	y, inAm := int32(0), false
	for _, x := range r.am {
		if !slices.Contains(r.demand, x) {
			y, inAm = x, true
			break
		}
	}
	size := 0
	for _, x := range r.a1in {
		if !slices.Contains(r.fetched, x) {
			size++
		}
	}
	if x, ok := r.tail(); ok && (size > r.kin || !inAm) {
		r.a1in = drop(r.a1in, x)
		r.a1out = append(r.a1out, x)
		if len(r.a1out) > r.kout {
			r.a1out = r.a1out[1:]
		}
		return x
	}
	r.am = drop(r.am, y)
	return y
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		victims = append(victims, r.reclaim())
	}
	return victims
}
