// Package lfu evicts the block that was demanded in the fewest steps since its insertion.
//
// Source: the textbook baseline. PQCache caches blocks by LFU. A step counts once for a block
// however its tokens were selected.
//
// Rule: the first victim is the block with the smallest number of demanded steps since its
// insertion. A birth starts at 0 and a fetch at 1. An eviction forgets the count. Ties go to the
// least recently used, then to the lowest block index.
//
// The count is updated when a block leaves the demand, from the step at which it entered. A stay of
// any length therefore costs two operations. Cost: O(1) per change of the demand. Memory: 8 B per
// block of the context and 4 B per change. No stack property. It loses when the topic moves,
// because old counts keep dead blocks.
package lfu

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed lfu.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lfu",
	Summary: "evicts the block demanded in fewest steps since insertion",
	Source:  "textbook, also in PQCache",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "8 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is LFU over one stream: one bucket per count.
type Policy struct {
	queue bucket.Queue
	// count of a block outside the demand is its demanded steps since insertion. While the block is
	// inside, the step at which it entered is subtracted. A change then touches one place in memory.
	count   []int32
	buckets []int32 // of the blocks that left the demand
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queue.Reset(sc.Blocks, sc.Steps+1)
	p.count = policies.Fill(p.count, sc.Blocks, 0)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.buckets = slices.Grow(p.buckets[:0], len(s.Exit))[:len(s.Exit)]
	count, buckets := p.count, p.buckets
	for i, x := range s.Exit {
		n := count[x] + s.T
		count[x], buckets[i] = n, n
	}
	p.queue.PushAll(buckets, s.Exit)
	p.queue.Push(0, s.Offered...)
	for _, x := range s.Offered {
		count[x] = 0
	}
	p.queue.Remove(s.Hit...)
	for _, x := range s.Hit {
		count[x] -= s.T
	}
	for _, x := range s.Miss {
		count[x] = -s.T
	}
}

// Evict appends the n blocks with the smallest counts.
func (p *Policy) Evict(n int, dst []int32) []int32 { return p.queue.PopLowest(n, dst) }

// Peek returns the block with the smallest count, without removing it.
func (p *Policy) Peek() (int32, bool) { return p.queue.PeekLowest() }
