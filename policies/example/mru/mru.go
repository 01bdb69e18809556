// Package mru evicts the block that was demanded last. It is the example of a policy in a separate
// module.
//
// Source: the textbook's answer to a loop that is longer than the cache. There LRU evicts every
// block just before its next demand.
//
// Rule: the first victim is the block whose last demanded step is latest (a birth was last used at
// the step before it). Ties go to the lowest block index.
//
// Cost: O(1) per change of the demand. Memory: 4 B per block of the context and 4 B per change.
// Stack property: not claimed. It loses if recently demanded blocks are demanded again soon, which
// is nearly always true in decoding.
package mru

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed mru.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "mru",
	Summary: "evicts the block demanded last",
	Source:  "textbook",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "4 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is MRU over one stream: one bucket per step of last use.
type Policy struct {
	queue  bucket.Queue
	offset int32 // bucket of last use at step 0
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.offset = int32(sc.Windows) + 1
	p.queue.Reset(sc.Blocks, sc.Steps+2)
	return nil
}

// Update applies a step. Exits and births were last used at the step before.
func (p *Policy) Update(s *policies.Step) {
	used := s.T - 1 + p.offset
	p.queue.Push(used, s.Exit...)
	p.queue.Push(used, s.Offered...)
	p.queue.Remove(s.Hit...)
}

// Evict appends the n blocks used last.
func (p *Policy) Evict(n int, dst []int32) []int32 { return p.queue.PopHighest(n, dst) }
