// Package optbypass is the exact optimum for policies that may keep fetched blocks out of the
// cache: MIN with victims from the demand too.
//
// Source: McFarling, "Cache replacement with dynamic exclusion", ISCA 1992, for the idea that not
// caching can be optimal. Here it is batch-aware, as package opt is.
//
// Rule: after each step the blocks that exceed the capacity leave, farthest next demand first,
// among the residents and the demand alike. A next demand in a warm-up window counts as never (see
// package opt). Ties go to the least recently used, then to the lowest block index. Members of the
// demand that the next step demands again leave last.
//
// It bounds every policy that does not prefetch. It never misses more than opt. Cost: O(1) per
// change of the demand. It is O(|D_t|) at windows, and if the blocks that two steps in a row demand
// exceed the capacity. Memory: 8 B per block of the context and 4 B per change.
package optbypass

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed optbypass.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "opt-bypass",
	Summary: "the exact optimum of policies that may keep demanded blocks out",
	Source:  "MIN with bypass (McFarling 1992), batch-aware",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Offline: true, Bypasses: true, Sized: true, Stack: true, Memory: "8 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is MIN with bypass over one stream. The queue holds the outside set. It also holds the
// members of D_t that the next step does not demand, ahead of their exit.
type Policy struct {
	queue    bucket.Queue
	capacity int
	never    int32
	outside  int     // members of the queue that are outside the demand
	leaves   []int32 // step after which a block leaves the demand, if it is queued ahead
	staying  []int32 // blocks queued in a window although the next window demands them
	farthest []int32
	bypass   []int32
	victims  []int32
}

// Needs returns the needs for next uses and for the demand.
func (p *Policy) Needs() policies.Needs { return policies.NeedNext | policies.NeedDemand }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.never = int32(sc.Steps - sc.Windows)
	p.queue.Reset(sc.Blocks, int(p.never)+1)
	p.leaves = policies.Fill(p.leaves, sc.Blocks, policies.Never)
	p.capacity, p.outside, p.staying = sc.Capacity, 0, p.staying[:0]
	return nil
}

// Resize follows a capacity that changes.
func (p *Policy) Resize(capacity int) { p.capacity = capacity }

// Update applies a step and chooses the blocks that leave.
func (p *Policy) Update(s *policies.Step) {
	for _, x := range p.staying {
		if p.queue.Has(x) {
			p.queue.Remove(x)
		}
	}
	p.staying = p.staying[:0]
	p.outside += len(s.Exit) // queued a step ago
	p.queue.PushAll(s.OfferedNext, s.Offered)
	for _, x := range s.Offered {
		p.leaves[x] = policies.Never
	}
	p.outside += len(s.Offered)
	p.queue.Remove(s.Hit...)
	p.outside -= len(s.Hit)
	if s.T < -1 {
		p.queueWindow(s)
	} else {
		p.queueLeaving(s)
	}
	p.choose(s)
}

// queueLeaving queues the blocks that the next step does not demand.
func (p *Policy) queueLeaving(s *policies.Step) {
	p.queue.PushAll(s.LeavingNext, s.Leaving)
	for _, x := range s.Leaving {
		p.leaves[x] = s.T
	}
}

// queueWindow queues the whole demand of a window that another window follows. A block that the
// next window demands again comes back for free.
func (p *Policy) queueWindow(s *policies.Step) {
	i := 0
	for _, x := range s.Members {
		next := p.never
		if i < len(s.Leaving) && s.Leaving[i] == x {
			next = min(s.LeavingNext[i], p.never)
			i++
		} else {
			p.staying = append(p.staying, x)
		}
		p.queue.Push(next, x)
		p.leaves[x] = s.T
	}
}

// choose pops the farthest until the rest fits. Members of the demand are bypassed.
func (p *Policy) choose(s *policies.Step) {
	over := p.outside + s.Demand - p.capacity
	p.farthest = p.queue.PopHighest(over, p.farthest[:0])
	p.split(p.farthest, s.T)
	over -= len(p.farthest)
	p.outside -= len(p.victims)
	i := 0
	for _, x := range s.Members { // the remaining members are demanded again by the next step
		if over <= 0 {
			break
		}
		for i < len(s.Leaving) && s.Leaving[i] < x {
			i++
		}
		if i < len(s.Leaving) && s.Leaving[i] == x {
			continue
		}
		p.bypass = append(p.bypass, x)
		over--
	}
}

// split divides blocks into members of the demand and residents. It writes each to both lists
// before it is known, so no branch is mispredicted.
func (p *Policy) split(blocks []int32, t int32) {
	n := len(blocks) + 1
	p.bypass, p.victims = slices.Grow(p.bypass[:0], n)[:n], slices.Grow(p.victims[:0], n)[:n]
	bypass, victims := p.bypass, p.victims
	i := 0
	for j, x := range blocks {
		bypass[i], victims[j-i] = x, x
		if p.leaves[x] == t {
			i++
		}
	}
	p.bypass, p.victims = bypass[:i], victims[:len(blocks)-i]
}

// Bypass returns the members of the demand that do not stay.
func (p *Policy) Bypass(_ int, dst []int32) []int32 { return append(dst, p.bypass...) }

// Evict returns the residents that do not stay.
func (p *Policy) Evict(_ int, dst []int32) []int32 { return append(dst, p.victims...) }
