package clock_test

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// frame is a page frame, free if it has no block.
type frame struct {
	block      int32
	referenced bool
}

const none = -1

// reference is the rule, literally: a ring of frames, a mark per frame, a hand that checks one
// frame after the other. It receives every demanded step of every block.
type reference struct {
	frames  []frame
	free    []int // frames in the order in which they were freed
	hand    int
	demand  []int32
	fetched []int32
}

func (r *reference) Reset(policies.Scope) { *r = reference{} }

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.load(x)
	}
	for _, x := range s.Hits {
		r.frames[r.find(x)].referenced = true
	}
	r.demand, r.fetched = s.Demand, nil
	for _, x := range s.Misses {
		if !slices.Contains(s.Pass, x) {
			r.fetched = append(r.fetched, x)
		}
	}
	for _, x := range s.Pass {
		if at := r.find(x); at >= 0 {
			r.release(at)
		}
	}
}

func (r *reference) find(x int32) int {
	return slices.IndexFunc(r.frames, func(f frame) bool { return f.block == x })
}

func (r *reference) load(x int32) {
	if len(r.free) > 0 {
		r.frames[r.free[0]] = frame{block: x}
		r.free = r.free[1:]
		return
	}
	r.frames = append(r.frames, frame{block: x})
}

func (r *reference) release(at int) {
	r.frames[at].block = none
	r.free = append(r.free, at)
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for len(victims) < n {
		if r.hand >= len(r.frames) {
			r.hand = 0
		}
		switch f := &r.frames[r.hand]; {
		case f.block == none || slices.Contains(r.demand, f.block):
		case f.referenced:
			f.referenced = false
		default:
			victims = append(victims, f.block)
			r.release(r.hand)
		}
		r.hand++
	}
	for _, x := range r.fetched {
		r.load(x)
	}
	return victims
}
