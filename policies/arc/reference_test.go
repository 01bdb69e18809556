package arc

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is Fig. 4 of the paper, given every demanded step of every block. Its four lists run
// from least to most recent, include members of D_t and change at each access.
type reference struct {
	c              int
	p              float64
	t1, t2, b1, b2 []int32
	accessed       map[int32]bool // members of T1 that were accessed. The others were born
	demand         []int32
	fetched        []int32 // into T1 at this step
	hitB2          bool
}

func (r *reference) Reset(sc policies.Scope) {
	*r = reference{c: sc.Capacity, accessed: map[int32]bool{}}
}

func drop(list []int32, x int32) []int32 {
	return slices.DeleteFunc(list, func(y int32) bool { return y == x })
}

// born inserts a block without an access.
func (r *reference) born(x int32) {
	r.forget(x)
	r.t1 = append(r.t1, x)
	delete(r.accessed, x)
}

func (r *reference) forget(x int32) {
	r.t1, r.t2, r.b1, r.b2 = drop(r.t1, x), drop(r.t2, x), drop(r.b1, x), drop(r.b2, x)
}

// access is a request for x. REPLACE comes later, for the whole step.
func (r *reference) access(x int32) {
	n1, n2 := float64(len(r.b1)), float64(len(r.b2))
	switch {
	case slices.Contains(r.t1, x) && !r.accessed[x]: // the first access of a birth
		r.t1 = append(drop(r.t1, x), x)
		r.accessed[x] = true
		return
	case slices.Contains(r.t1, x), slices.Contains(r.t2, x): // case I
	case slices.Contains(r.b1, x): // case II
		delta := 1.0
		if n1 < n2 {
			delta = n2 / n1
		}
		r.p = min(r.p+delta, float64(r.c))
	case slices.Contains(r.b2, x): // case III
		delta := 1.0
		if n2 < n1 {
			delta = n1 / n2
		}
		r.p = max(r.p-delta, 0)
		r.hitB2 = true
	default: // case IV
		r.t1 = append(r.t1, x)
		r.accessed[x] = true
		r.fetched = append(r.fetched, x)
		return
	}
	r.forget(x)
	r.t2 = append(r.t2, x)
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.born(x)
	}
	r.demand, r.fetched, r.hitB2 = slices.Clone(s.Demand), nil, false
	for _, x := range r.demand {
		r.access(x)
	}
	for _, x := range s.Pass {
		r.forget(x)
	}
}

// oldest returns the least recent member of a list outside the demand.
func (r *reference) oldest(list []int32) (int32, bool) {
	for _, x := range list {
		if !slices.Contains(r.demand, x) {
			return x, true
		}
	}
	return 0, false
}

// replace does REPLACE(x, p).
func (r *reference) replace() int32 {
	size := 0
	for _, x := range r.t1 {
		if !slices.Contains(r.fetched, x) {
			size++
		}
	}
	fromT1 := size >= 1 && (r.hitB2 && float64(size) == r.p || float64(size) > r.p)
	x, ok1 := r.oldest(r.t1)
	y, ok2 := r.oldest(r.t2)
	if ok1 && (fromT1 || !ok2) {
		r.forget(x)
		r.b1 = append(r.b1, x)
		return x
	}
	r.forget(y)
	r.b2 = append(r.b2, y)
	return y
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		victims = append(victims, r.replace())
	}
	for len(r.t1)+len(r.b1) > r.c && len(r.b1) > 0 {
		r.b1 = r.b1[1:]
	}
	for len(r.t1)+len(r.t2)+len(r.b1)+len(r.b2) > 2*r.c && len(r.b2) > 0 {
		r.b2 = r.b2[1:]
	}
	return victims
}
