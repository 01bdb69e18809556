package static

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference counts every demanded window of every block, sorts the counts, and keeps the first C.
type reference struct {
	capacity int
	demands  map[int32]int
	set      map[int32]bool
	births   []int32 // of the last step, until victims are requested
}

func (r *reference) Reset(sc policies.Scope) {
	*r = reference{capacity: sc.Capacity, demands: map[int32]int{}, set: map[int32]bool{}}
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range r.births { // no victims were requested, so a warm-up placed them
		r.set[x] = true
	}
	r.births = s.Births
	if s.T >= 0 {
		return
	}
	for _, x := range s.Demand {
		r.demands[x]++
	}
	var order []int32
	for x := range r.demands {
		order = append(order, x)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(r.demands[y], r.demands[x]), cmp.Compare(x, y))
	})
	clear(r.set)
	for _, x := range order[:min(r.capacity, len(order))] {
		r.set[x] = true
	}
}

func (r *reference) others(blocks []int32) []int32 {
	return slices.DeleteFunc(blocks, func(x int32) bool { return r.set[x] })
}

func (r *reference) KeepOut(_ int, demand []int32) []int32 { return r.others(demand) }

func (r *reference) Victims(_ int, outside []int32) []int32 {
	r.births = nil
	return r.others(outside)
}
