// Package lru2 evicts the block whose second-last use is longest ago.
//
// Source: E. O'Neil, P. O'Neil and G. Weikum, "The LRU-K page replacement algorithm for database
// disk buffering", SIGMOD 1993, section 2, with K = 2. A use is a stay of a block in the demand.
// The steps of a stay are correlated references (section 2.1.1) and count once, at the last step of
// the stay. A birth is a use at the step before it.
//
// Rule: the first victim is the block whose second-last use is earliest. Blocks with fewer than two
// uses come first. Ties go to the block whose last use is earliest, then to the lowest block index.
// The uses of evicted blocks are remembered for the whole stream: the retained information period
// (section 2.1.2) has no end.
//
// Options: none. Cost: O(1) per change of the demand. Memory: 12 B per block of the context and 4 B
// per change. Stack property: not claimed. It loses if a block that was used twice long ago is
// demanded again soon. It also loses if new blocks come back after the queue has dropped them.
package lru2

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed lru2.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lru-2",
	Summary: "evicts the block whose second-last use is longest ago",
	Source:  "O'Neil, O'Neil and Weikum 1993, section 2",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "12 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is LRU-2 over one stream. The queue holds the set E in one bucket per second-last use.
// Uses are steps, counted from 1 at the first prompt window. 0 means none.
type Policy struct {
	queue        bucket.Queue
	last, second []int32 // the last use of each block, and the one before it
	offset       int32   // of step 0
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.offset = int32(sc.Windows) + 2
	p.queue.Reset(sc.Blocks, sc.Steps+3)
	p.last = policies.Fill(p.last, sc.Blocks, 0)
	p.second = policies.Fill(p.second, sc.Blocks, 0)
	return nil
}

// Update applies a step. Exits and births were last used at the step before, passed blocks at this
// one.
func (p *Policy) Update(s *policies.Step) {
	p.use(s.Exit, s.T-1)
	p.queue.PushBy(p.second, s.Exit)
	p.use(s.Offered, s.T-1)
	p.queue.PushBy(p.second, s.Offered)
	p.queue.Remove(s.Hit...)
	p.use(s.Pass, s.T)
}

// use records a use of each block at step t.
func (p *Policy) use(blocks []int32, t int32) {
	for _, x := range blocks {
		p.second[x], p.last[x] = p.last[x], t+p.offset
	}
}

// Evict appends the n blocks whose second-last use is earliest.
func (p *Policy) Evict(n int, dst []int32) []int32 { return p.queue.PopLowest(n, dst) }
