// Package clock evicts the first block that was not demanded again since the hand last passed it
// (second chance). The hand goes round the cache's frames.
//
// Source: Corbató, "A paging experiment with the Multics system", MIT Project MAC report MAC-M-384,
// 1968. Today's comparisons insert a block unreferenced (Yang et al., "FIFO queues are all you need
// for cache eviction", SOSP 2023). That is also called FIFO with reinsertion.
//
// Step semantics: an access is one demanded step of a block. A fetch inserts the block unreferenced
// at its step. A birth inserts it at the step before its own. Any further demanded step references
// it: in a stay of n steps that a fetch begins, n-1 steps do. A block of D_t is in use: the hand
// passes over it and leaves its mark alone.
//
// Frames: a step's births, ascending, take free frames, the one freed longest ago first. If no
// frame is free, they take new frames at the end of the ring. Then the hand frees the frames that
// the capacity requires. Then the step's fetches, ascending, take frames in the same way. Like a
// page fault, a fetch therefore replaces a victim of its own step. A block that an overflow keeps
// out takes no frame. If it had one, the frame is freed before the hand moves, the worst rank first
// (without ranks, the lowest index).
//
// Rule: the hand moves up from frame 0, round and round. It clears the mark of each referenced
// block that it passes, evicts the first unreferenced one and stops behind it. Frames order all
// blocks, so there are no ties.
//
// State: the frames, with a bit each for "outside the demand" and "referenced", so that the hand
// passes 64 frames at a time. Each block has a bit for "fetched at the last step", because only
// such a block can leave the demand unreferenced. Invariant: outside a step at most C frames are in
// use, C the capacity. At most C and one step's births exist. Cost: O(1) per change of the demand,
// and 1/64 of the capacity per round of the hand. Memory: 5 B per block of the context and 5 B per
// frame. Exact, online, no stack property. Differences from the sources: a whole step is marked
// before the hand moves. It loses to LRU if blocks are demanded for a while and never again,
// because a mark keeps each for a further round. It loses to FIFO at no capacity of the README's
// board.
package clock

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/places"
)

//go:embed clock.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "clock",
	Aliases: []string{"second-chance"},
	Summary: "a hand over the frames evicts blocks not demanded again",
	Source:  "Corbató 1968",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "5 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is CLOCK over one stream.
type Policy struct {
	ring    places.Queue
	free    []int32 // free frames, the one freed longest ago first
	waiting []int32 // fetched at this step, not yet in a frame
	hand    int     // frame
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.ring.Reset(sc.Blocks)
	p.free, p.waiting, p.hand = p.free[:0], p.waiting[:0], 0
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.seat(p.waiting)
	p.ring.Leave(s.Exit)
	p.seat(s.Offered)
	p.ring.Open(s.Offered)
	p.ring.Enter(s.Hit)
	p.ring.Fetch(s.Miss)
	p.waiting = append(p.waiting[:0], s.Miss...)
	p.drop(s.Pass)
}

// seat gives each block a frame.
func (p *Policy) seat(blocks []int32) {
	reused := min(len(p.free), len(blocks))
	p.ring.Put(blocks[:reused], p.free)
	p.free = p.free[:copy(p.free, p.free[reused:])]
	p.ring.Insert(blocks[reused:])
}

// drop forgets the blocks of the demand that are not kept.
func (p *Policy) drop(pass []int32) {
	if len(pass) == 0 {
		return
	}
	for _, x := range pass {
		if p.ring.Has(x) {
			p.free = append(p.free, p.ring.Remove(x))
		}
		p.ring.Unfetch(x)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(x int32) bool { return !p.ring.Fetched(x) })
}

// Evict appends the n blocks that the hand finds. The step's fetches take their frames before the
// next step.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	freed := len(p.free)
	p.free, p.hand = p.ring.Sweep(p.hand, n, p.free)
	return p.ring.Vacate(p.free[freed:], dst)
}
