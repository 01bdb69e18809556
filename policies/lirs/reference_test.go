package lirs

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is section 3.3 of the paper, given every demanded step of every block. S runs from
// bottom to top and Q from front to end, and both include members of D_t.
type reference struct {
	share float64 // of HIR blocks

	most     int  // LIR blocks
	full     bool // the LIR set has been full once
	lir      map[int32]bool
	resident map[int32]bool
	s, q     []int32
	demand   []int32
}

func (r *reference) Reset(sc policies.Scope) {
	hir := max(1, policies.Part(r.share, sc.Capacity))
	*r = reference{share: r.share, most: max(1, sc.Capacity-hir), lir: map[int32]bool{}, resident: map[int32]bool{}}
}

func drop(list []int32, x int32) []int32 {
	return slices.DeleteFunc(list, func(y int32) bool { return y == x })
}

func (r *reference) forget(x int32) {
	r.s, r.q = drop(r.s, x), drop(r.q, x)
	delete(r.lir, x)
	delete(r.resident, x)
}

// access is a reference to x. recent reports whether x was on S when the step began.
func (r *reference) access(x int32, recent bool) {
	r.q = drop(r.q, x)
	switch {
	case r.lir[x]: // case 1
	case recent, !r.full: // cases 2(a) and 3(a). The first accesses fill the LIR set
		r.lir[x] = true
		r.full = r.full || len(r.lir) == r.most
	} // cases 2(b) and 3(b): x is a HIR block and joins Q
	r.resident[x] = true
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.forget(x)
		r.q = append(r.q, x)
		r.resident[x] = true
	}
	stays := map[int32]bool{}
	for _, x := range r.demand {
		stays[x] = r.resident[x]
	}
	r.demand = slices.Clone(s.Demand)
	for _, first := range []bool{true, false} { // a block that stays was demanded again, whether it is on S or not
		for _, x := range r.demand {
			if stays[x] == first {
				r.access(x, stays[x] || slices.Contains(r.s, x))
			}
		}
	}
	for _, x := range r.demand {
		r.s = append(drop(r.s, x), x)
	}
	for _, x := range s.Pass {
		r.forget(x)
	}
	r.demote()
	for _, x := range r.demand {
		if r.resident[x] && !r.lir[x] {
			r.q = append(r.q, x)
		}
	}
}

// bottom returns the lowest LIR block on S outside the demand.
func (r *reference) bottom() (int32, bool) {
	for _, x := range r.s {
		if r.lir[x] && !slices.Contains(r.demand, x) {
			return x, true
		}
	}
	return 0, false
}

// demote turns excess LIR blocks into HIR blocks at the end of Q.
func (r *reference) demote() {
	for x, ok := r.bottom(); ok && len(r.lir) > r.most; x, ok = r.bottom() {
		delete(r.lir, x)
		r.q = append(r.q, x)
	}
	r.prune()
}

// prune does the paper's stack pruning. D_t lies above everything else.
func (r *reference) prune() {
	for len(r.s) > 0 && !r.lir[r.s[0]] && !slices.Contains(r.demand, r.s[0]) {
		r.s = r.s[1:]
	}
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		at := slices.IndexFunc(r.q, func(x int32) bool { return !slices.Contains(r.demand, x) })
		if at >= 0 {
			x := r.q[at]
			r.q = drop(r.q, x)
			delete(r.resident, x)
			victims = append(victims, x)
			continue
		}
		x, _ := r.bottom() // Q is empty: the LIR block that the paper would demote next
		r.forget(x)
		r.prune()
		victims = append(victims, x)
	}
	return victims
}
