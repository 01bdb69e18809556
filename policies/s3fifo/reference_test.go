package s3fifo_test

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is Algorithm 1, literally, given every demanded step of every block. Queues are slices,
// oldest first.
type reference struct {
	share               float64
	smallSize, mainSize int
	small, main         []int32
	ghosts              []int32 // all that were evicted from small, those taken as none
	frequency           map[int32]int
	demand              []int32
}

const none = -1

func (r *reference) Reset(sc policies.Scope) {
	size := max(1, policies.Part(r.share, sc.Capacity))
	*r = reference{share: r.share, smallSize: size, mainSize: sc.Capacity - size, frequency: map[int32]int{}}
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Births {
		r.small = append(r.small, x)
		r.frequency[x] = 0
	}
	for _, x := range s.Hits {
		r.frequency[x] = min(r.frequency[x]+1, 3)
	}
	for _, x := range s.Misses {
		r.frequency[x] = 0
		if r.ghostHit(x) {
			r.main = append(r.main, x)
		} else {
			r.small = append(r.small, x)
		}
	}
	r.demand = s.Demand
	for _, x := range s.Pass {
		r.small, r.main = without(r.small, x), without(r.main, x)
	}
}

func (r *reference) ghostHit(x int32) bool {
	remembered := r.ghosts[max(0, len(r.ghosts)-r.mainSize):]
	i := slices.Index(remembered, x)
	if i >= 0 {
		remembered[i] = none
	}
	return i >= 0
}

func without(queue []int32, x int32) []int32 {
	return slices.DeleteFunc(queue, func(y int32) bool { return y == x })
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		if len(r.small) >= r.smallSize {
			victims = append(victims, r.evictSmall())
		} else {
			victims = append(victims, r.evictMain())
		}
	}
	return victims
}

// oldest returns the first block of a queue that is not in use, or none.
func (r *reference) oldest(queue []int32) int32 {
	for _, x := range queue {
		if !slices.Contains(r.demand, x) {
			return x
		}
	}
	return none
}

func (r *reference) evictSmall() int32 {
	for {
		t := r.oldest(r.small)
		if t == none {
			return r.evictMain()
		}
		r.small = without(r.small, t)
		if r.frequency[t] <= 1 {
			r.ghosts = append(r.ghosts, t)
			return t
		}
		r.frequency[t] = 0
		r.main = append(r.main, t)
		if len(r.main) > r.mainSize {
			return r.evictMain()
		}
	}
}

func (r *reference) evictMain() int32 {
	for {
		t := r.oldest(r.main)
		if t == none {
			return r.evictSmall()
		}
		r.main = without(r.main, t)
		if r.frequency[t] == 0 {
			return t
		}
		r.frequency[t]--
		r.main = append(r.main, t)
	}
}
