package sieve_test

import (
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// object is a cached object of the paper's Algorithm 1.
type object struct {
	block   int32
	visited bool
	inUse   bool    // in D_t
	prev    *object // towards the head
	next    *object // towards the tail
}

// reference is Algorithm 1, literally: a linked queue, a mark per object, and a hand. It receives
// every demanded step of every block.
type reference struct {
	head, tail, hand *object
	cached           map[int32]*object
}

func (r *reference) Reset(policies.Scope) { *r = reference{cached: map[int32]*object{}} }

func (r *reference) Step(s *policytest.Step) {
	for _, o := range r.cached {
		o.inUse = false
	}
	for _, x := range s.Births {
		r.insert(x)
	}
	for _, x := range s.Hits {
		r.cached[x].visited = true
	}
	for _, x := range s.Misses {
		r.insert(x)
	}
	for _, x := range s.Demand {
		r.cached[x].inUse = true
	}
	for _, x := range s.Pass {
		r.remove(r.cached[x])
	}
}

func (r *reference) insert(x int32) {
	o := &object{block: x, next: r.head}
	if r.head != nil {
		r.head.prev = o
	} else {
		r.tail = o
	}
	r.head = o
	r.cached[x] = o
}

func (r *reference) remove(o *object) {
	if r.hand == o {
		r.hand = o.prev
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		r.head = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		r.tail = o.prev
	}
	delete(r.cached, o.block)
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		o := r.hand
		if o == nil {
			o = r.tail
		}
		for o.visited || o.inUse {
			if !o.inUse {
				o.visited = false
			}
			if o = o.prev; o == nil {
				o = r.tail
			}
		}
		r.hand = o.prev
		r.remove(o)
		victims = append(victims, o.block)
	}
	return victims
}
