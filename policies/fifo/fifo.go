// Package fifo evicts the block that was inserted longest ago, however often it was used since.
//
// Source: the textbook baseline (Belady, "A study of replacement algorithms for a virtual-storage
// computer", IBM Systems Journal 5(2), 1966). A whole step's fetches are inserted at that step.
//
// Rule: the first victim is the block with the earliest step of insertion (its fetch, or the step
// before its birth). Ties go to the least recently used, then to the lowest block index.
//
// Cost: O(1) per change of the demand. Memory: 8 B per block of the context and 4 B per change. No
// stack property (Belady's anomaly). It loses to LRU if a stable core is demanded again and again:
// on the README's board by a quarter of the misses at 2 × K.
package fifo

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed fifo.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "fifo",
	Summary: "evicts the block inserted longest ago",
	Source:  "Belady 1966",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "8 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is FIFO over one stream: one bucket per step of insertion.
type Policy struct {
	queue    bucket.Queue
	inserted []int32 // bucket of each block: its step of insertion, counted from the first warm-up
	offset   int32   // bucket of step 0
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.offset = int32(sc.Windows) + 1 // a birth at the first step was inserted at the step before
	p.queue.Reset(sc.Blocks, sc.Steps+2)
	p.inserted = policies.Fill(p.inserted, sc.Blocks, 0)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	now := s.T + p.offset
	p.queue.PushBy(p.inserted, s.Exit)
	p.queue.Push(now-1, s.Offered...)
	for _, x := range s.Offered {
		p.inserted[x] = now - 1
	}
	p.queue.Remove(s.Hit...)
	for _, x := range s.Miss {
		p.inserted[x] = now
	}
}

// Evict appends the n blocks inserted first.
func (p *Policy) Evict(n int, dst []int32) []int32 { return p.queue.PopLowest(n, dst) }

// Peek returns the block inserted first, without removing it.
func (p *Policy) Peek() (int32, bool) { return p.queue.PeekLowest() }
