// Package sieve evicts the first block that was not demanded again since the hand last passed it.
// The hand moves from the oldest to the newest insertion.
//
// Source: Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is Simpler than LRU: an Efficient Turn-Key
// Eviction Algorithm for Web Caches", NSDI 2024, section 3.1 and Algorithm 1.
//
// Step semantics: an access is one demanded step of a block. A fetch inserts at the head of the
// queue, unvisited, at its step. A birth inserts at the step before its own. Within a step births
// come before fetches and lower indices before higher ones. Any further demanded step is a hit and
// marks the block visited: in a stay of n steps that a fetch begins, n-1 steps do. A block of D_t
// is in use: the hand passes over it and leaves its mark alone, as PostgreSQL's clock sweep passes
// over pinned buffers. The hand moves only after the whole step is inserted.
//
// Rule: the hand starts at the oldest block and moves towards the head. Past the head it starts
// again at the oldest. It clears the mark of each visited block that it passes, evicts the first
// unvisited one and stops behind it. The queue orders all blocks, so there are no ties.
//
// State: the queue as places in order of insertion, with a bit per place for "outside the demand"
// and one for "visited". The hand passes 64 places at a time. Each block has a bit for "fetched at
// the last step", because only such a block can leave the demand unvisited. Places of evicted
// blocks stay empty until three in four are, then the gaps are closed. Cost: O(1) per change of the
// demand, and 1/64 of the queue per round of the hand. Memory: 5 B per block of the context and 5 B
// per place. Exact, online, no stack property. Differences from the paper: the demand of a step is
// inserted and marked as a whole before the hand moves, and is passed over. It loses to LRU if new
// blocks are demanded for one step and again after a gap. They are evicted unvisited before they
// come back. It loses less if blocks are demanded for a while and never again: each costs the hand
// a full round.
package sieve

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/places"
)

//go:embed sieve.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "sieve",
	Summary: "a hand in insertion order evicts blocks not demanded again",
	Source:  "Zhang et al., NSDI 2024, Algorithm 1",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "5 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is SIEVE over one stream.
type Policy struct {
	queue places.Queue
	hand  int     // place
	found []int32 // places of victims
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queue.Reset(sc.Blocks)
	p.hand = 0
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.queue.Leave(s.Exit)
	p.hand = p.queue.Compact(len(s.Offered)+len(s.Miss), p.hand)
	p.queue.Insert(s.Offered)
	p.queue.Open(s.Offered)
	p.queue.Enter(s.Hit)
	p.queue.Insert(s.Miss)
	p.queue.Fetch(s.Miss)
	for _, x := range s.Pass {
		p.queue.Remove(x)
	}
	p.settle()
}

// settle takes empty places off the head. If the hand is then past it, the hand starts again.
func (p *Policy) settle() {
	p.queue.Trim()
	if p.hand >= p.queue.Len() {
		p.hand = 0
	}
}

// Evict appends the n blocks that the hand finds.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	p.found, p.hand = p.queue.Sweep(p.hand, n, p.found[:0])
	dst = p.queue.Vacate(p.found, dst)
	p.settle()
	return dst
}
