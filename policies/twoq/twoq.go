// Package twoq lets a block into the main queue only if it is demanded again after it has passed a
// short first-in-first-out queue.
//
// Source: Johnson and Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement
// Algorithm", VLDB 1994, section 3.2, "Full Version". Am is the main queue, A1in the short one,
// A1out its ghosts: block ids that were evicted from A1in.
//
// Step semantics: an access is one demanded step of a block. A fetch inserts at its step: into Am
// if the block is a ghost of A1out (a ghost hit), otherwise into A1in. A birth, or a block that a
// warm-up placed, is inserted into A1in at the step before. A further access of a member of A1in
// does nothing. It is correlated reference, as is every step of a stay but its first. An access of
// a member of Am makes it the most recent. A step begins with the blocks that left the demand,
// which take their place (in A1in that of their insertion), then births. The accesses follow, and
// ghosts that are hit leave A1out. Victims come last.
//
// Rule: while |A1in| > Kin the next victim is the block of A1in that was inserted at the earliest
// step, and it becomes the newest ghost. Otherwise it is the least recently used block of Am, which
// leaves no ghost. Ties go to the least recently used, then to the lowest index. |A1in| counts
// members of D_t, which are no victims. It does not count the blocks that the step fetched, because
// the paper reclaims a slot before it inserts. If a queue has no other member, the other queue
// gives the victim. If there are more than Kout ghosts, the oldest are forgotten. A block that an
// overflow keeps out is forgotten and leaves no ghost.
//
// Options: kin and kout are the shares of the capacity for A1in and for ghosts, rounded down. The
// defaults 0.25 and 0.5 are the paper's choice (section 3.2: 25 % of the page slots, ids for 50 %).
//
// State: a bucket per step of insertion for A1in, two lists for Am and A1out. Members of D_t are in
// none, and join when they leave it. Shares are the decimals exactly as written (policies.Part),
// applied at the start. Cost: O(1) per change of the demand. Memory: 12 B per block of the context,
// 4 B per change, and 4 B to 32 B for each block of Am or A1out. Exact, online, no stack property.
//
// Differences from the paper: a whole step is classified before anything is evicted. The paper does
// not say whether a ghost that is hit counts while its slot is reclaimed. Here it does not. With
// steps of one block it is the paper's 2Q to the last miss. It loses to LRU if stays follow each
// other closely: every block to be kept must first leave A1in and be missed once. On the README's
// board that costs misses from 2 × K on, and more at larger capacities.
package twoq

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
	"github.com/kvreplay/kvreplay/policies/lists"
)

//go:embed twoq.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "2q",
	Aliases: []string{"twoq"},
	Summary: "FIFO for new blocks, LRU for blocks that come back",
	Source:  "Johnson and Shasha, VLDB 1994, section 3.2",
	Usage:   "2q:kin=I,kout=O, shares of the capacity, I from 0 to 1, default 0.25, and O from 0 to 8, default 0.5",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Sized: true, Memory: "12 B", Cost: "O(1)"},
	New: policies.WithOptions(Policy{Kin: 0.25, Kout: 0.5}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Float("kin", &p.Kin, 0, 1), policies.Float("kout", &p.Kout, 0, 8)}
	}),
}

// The lists, and the place of insertion of a member of Am.
const (
	am int32 = iota
	a1out
	inAm int32 = -1
)

// Policy is 2Q over one stream.
type Policy struct {
	Kin, Kout float64 // shares of the capacity

	a1in      bucket.Queue // by step of insertion
	queues    lists.Lists  // am, a1out
	inserted  []int32      // bucket of a member of A1in, inAm for one of Am
	offset    int32        // bucket of step 0
	kin, kout int
	held      int // members of D_t that were in A1in before the step
	fetched   int // members of D_t that the step fetched into A1in
	scratch   []int32
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.offset = int32(sc.Windows) + 1 // a birth at the first step was inserted at the step before
	p.a1in.Reset(sc.Blocks, sc.Steps+2)
	p.queues.Reset(sc.Blocks)
	p.inserted = policies.Fill(p.inserted, sc.Blocks, inAm)
	p.kin, p.kout = policies.Part(p.Kin, sc.Capacity), policies.Part(p.Kout, sc.Capacity)
	p.held, p.fetched = 0, 0
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	now := s.T + p.offset
	p.held += p.fetched
	p.leave(s, now)
	p.hit(s)
	p.miss(s, now)
	for _, x := range s.Pass {
		if p.inserted[x] == now {
			p.fetched--
		} else if p.inserted[x] != inAm {
			p.held--
		}
	}
}

// leave inserts the blocks that left the demand and the births into their queues.
func (p *Policy) leave(s *policies.Step, now int32) {
	main, short := p.split(s.Exit)
	p.queues.PushAll(am, main)
	p.a1in.PushBy(p.inserted, short)
	p.held -= len(short)
	for _, x := range s.Offered {
		p.queues.Drop(x)
		p.inserted[x] = now - 1
	}
	p.a1in.Push(now-1, s.Offered...)
}

// split divides blocks into members of Am and of A1in. The two alternate almost at random, so each
// block is written to both before its queue is known, and no branch is mispredicted.
func (p *Policy) split(blocks []int32) (main, short []int32) {
	half := len(blocks) + 1
	p.scratch = slices.Grow(p.scratch[:0], 2*half)
	main, short = p.scratch[:half], p.scratch[half:2*half]
	i, j := 0, 0
	for _, x := range blocks {
		main[i], short[j] = x, x
		one := 0
		if p.inserted[x] == inAm {
			one = 1
		}
		i += one
		j += 1 - one
	}
	return main[:i], short[:j]
}

// hit takes residents into the demand.
func (p *Policy) hit(s *policies.Step) {
	main, short := p.split(s.Hit)
	p.queues.DropAll(am, main)
	p.a1in.Remove(short...)
	p.held += len(short)
}

// miss inserts the fetched blocks.
func (p *Policy) miss(s *policies.Step, now int32) {
	for _, x := range s.Miss {
		at := now
		if p.queues.In(x) == a1out {
			at = inAm
		}
		p.inserted[x] = at
	}
	p.fetched = len(s.Miss) - p.queues.DropAll(a1out, s.Miss)
}

// Evict appends n blocks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = p.reclaim(min(n, p.a1in.Len()+p.held-p.kin), dst)
	dst = p.queues.Pop(am, n-(len(dst)-from), dst)
	return p.reclaim(n-(len(dst)-from), dst) // Am has no other member
}

// reclaim appends n blocks of A1in and makes them ghosts (section 3.2, reclaimfor).
func (p *Policy) reclaim(n int, dst []int32) []int32 {
	from := len(dst)
	dst = p.a1in.PopLowest(n, dst)
	p.queues.PushAll(a1out, dst[from:])
	p.scratch = p.queues.Pop(a1out, p.queues.Len(a1out)-p.kout, p.scratch[:0])
	return dst
}
