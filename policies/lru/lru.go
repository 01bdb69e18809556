// Package lru evicts the block that was demanded longest ago.
//
// Source: ESS (DeepSeek-V3.2-Exp), the swap engine of its sparse memory pool and LRU-Warmup.
// Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970,
// for the stack property. Under step semantics a whole step is one use: its blocks are equally
// recent.
//
// Rule: first victim is the block whose last demanded step is earliest (a birth was last used at
// the step before it). At equal last use, demanded blocks are evicted before births, then the
// lowest block index.
//
// State: the order in which blocks left the demand, as a queue. A block that is demanded again
// leaves a stale entry behind, recognised by its position. Entries join in use order, because all
// blocks that leave the demand at a step were last used at the step before. Cost: O(1) per change
// of the demand. Memory: 4 B per block of the context, in a pool at 1x 12 B, and 4 B per change. Stack property: yes. It
// loses to decayed frequency if blocks come back at long, regular gaps. It loses to OPT by the
// knowledge that recency lacks.
package lru

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed lru.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lru",
	Summary: "evicts the block demanded longest ago",
	Source:  "ESS, LRU swap engine; Mattson et al. 1970",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Stack: true, Memory: "4 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is LRU over one stream. In a tracked pool it is LRU over all streams.
type Policy struct {
	Queue
	pool pool // in a tracked pool
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.Queue.Reset(sc.Blocks)
	p.pool.reset(sc)
	return nil
}

// Follows reports whether self is p: LRU evicts in the order of last use.
func (p *Policy) Follows(self policies.Policy) bool { return self == policies.Policy(p) }

// Tracks reports whether self is p.
func (p *Policy) Tracks(self policies.Policy) bool { return self == policies.Policy(p) }

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	if p.pool.tracked {
		p.pool.update(&p.Queue, s)
		return
	}
	p.Queue.Update(s)
}

// Evict appends the n least recently used blocks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if p.pool.tracked {
		return p.pool.evict(&p.Queue, n, dst)
	}
	return p.Queue.Evict(n, dst)
}
