// Package opt is the exact optimum for policies that keep the whole demand resident: batch-aware
// MIN. It reads the future and is a bound, not a contender.
//
// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
// Journal 5(2), 1966. A whole step is classified at once (SEMANTICS S4), so only blocks outside the
// step's demand are candidates.
//
// Rule: the first victim is the block whose next demand is farthest. A next demand in a warm-up
// window counts as never. Windows are not counted, so such a block comes back for free and keeping
// it gains nothing. The block's next *counted* demand would be the wrong key: it prefers a block
// that returns for free over one that does not. Ties go to the least recently used, then to the
// lowest block index.
//
// Why it is optimal: keeping a block from one use to the next saves one miss if the next use is
// counted, and nothing otherwise. Choosing which of these intervals to keep is interval scheduling
// under a capacity that changes from step to step (C less the demand). There, giving up the
// interval that ends last is optimal.
//
// It bounds the misses, not the time, of every policy that neither bypasses nor prefetches. Cost:
// O(1) per change of the demand. Memory: 4 B per block of the context and 4 B per change.
package opt

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed opt.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "opt",
	Aliases: []string{"belady", "min"},
	Summary: "the exact optimum of policies that keep the demand: evicts the farthest next demand",
	Source:  "Belady 1966, batch-aware",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Offline: true, Stack: true, Memory: "4 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is MIN over one stream: one bucket per step of next demand, the last for never.
type Policy struct{ queue bucket.Queue }

// Needs returns the need for next uses.
func (p *Policy) Needs() policies.Needs { return policies.NeedNext }

// Follows reports whether self is p: OPT evicts the farthest next demand.
func (p *Policy) Follows(self policies.Policy) bool { return self == policies.Policy(p) }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.queue.Reset(sc.Blocks, sc.Steps-sc.Windows+1)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.queue.PushAll(s.ExitNext, s.Exit)
	p.queue.PushAll(s.OfferedNext, s.Offered)
	p.queue.Remove(s.Hit...)
}

// Evict appends the n blocks demanded last.
func (p *Policy) Evict(n int, dst []int32) []int32 { return p.queue.PopHighest(n, dst) }
