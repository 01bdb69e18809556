// Package lfudecay evicts the block with the least decayed demand since its insertion. A demand
// counts half as much as one that is a half-life younger.
//
// Source: dynamic aging of frequency counts. Robinson and Devarakonda, "Data cache management using
// frequency-based replacement", SIGMETRICS 1990, halve counts when their mean is too high. TinyLFU
// ages in a similar way (Einziger et al., ACM ToS 13(4), 2017, section 3.3, "reset"). Here no count
// is ever rounded.
//
// Step semantics: a step is one demand of each block of D_t, however its tokens were selected. A
// demanded step t weighs 2^⌊t/H⌋ with H the half-life in steps (t is negative in warm-up windows).
// A birth, or a block that a warm-up placed, starts at 0. A fetch starts at the weight of its own
// step. An eviction forgets the sum.
//
// Rule: the first victim is the block with the smallest sum of weights. Ties go to the least
// recently used, then to the lowest block index. All weights age by the same factor. A sum that is
// not demanded again therefore needs no work, and the order of two idle blocks never changes.
//
// State and invariant: the sums are exact integers of any length (see weight.go), without floats.
// Results therefore do not depend on the order of summation, the length of a stay or a stream, or
// the machine. The outside set is a bucket.Queue by length and leading bits. A bucket is sorted if
// only some of its blocks are evicted.
//
// Options: half_life=H, 1 to 1048576 steps, 16 by default. That is the power of two nearest to 13.5
// steps, the half-life of LRFU with γ = .95. H = 1 compares demand histories as binary numbers,
// latest step first. That is LRU with the older history as tie-break, except that births weigh 0
// and are evicted first. An H longer than the stream is LFU, except that warm-up windows weigh
// half. On the traces and capacities of the README's board 4 and 8 miss 3 % less in the geometric
// mean.
//
// Cost: O(1) per change of the demand. Memory: 20 B per block of the context and 4 B per change.
// Each block takes a further 12 B for each 32 half-lives in which it was demanded. Exact, online,
// no stack property. Differences from the sources: they halve and round counts now and then, and
// results depend on when. It loses to LRU for about H steps after the topic moves. It loses to
// LRFU, which remembers evicted blocks.
package lfudecay

import (
	_ "embed" // the package comment is the policy's documentation
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

//go:embed lfudecay.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lfu-decay",
	Summary: "evicts the block demanded least, with decay by half-lives",
	Source:  "Robinson and Devarakonda 1990, aged counts; exact",
	Usage:   "lfu-decay:half_life=H, H from 1 to 1048576 steps, default 16",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "20 B", Cost: "O(1)"},
	New: policies.WithOptions(Policy{HalfLife: 16}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Int("half_life", &p.HalfLife, 1, maxHalfLife)}
	}),
}

// maxHalfLife keeps every sum of 32 half-lives within a weight's window.
const maxHalfLife = 1 << 20

// Policy is decayed LFU over one stream.
type Policy struct {
	HalfLife int // steps, 1 to 1048576

	queue   bucket.Queue
	sums    ledger
	mixed   []uint64 // not 0: buckets that had weights with more bits than the bucket number encodes
	buckets []int32  // of the blocks that left the demand
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.sums.reset(sc, min(p.HalfLife*sc.Updates(), 1<<30)) // longer than any pool, and sums still fit
	buckets := p.sums.coarse.buckets()
	p.queue.Reset(sc.Blocks, buckets)
	p.mixed = policies.Fill(p.mixed, buckets, 0)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	now := p.sums.at(int(s.T))
	p.buckets = slices.Grow(p.buckets[:0], len(s.Exit))[:len(s.Exit)]
	p.sums.leave(s.Exit, now, p.buckets, p.mixed)
	p.queue.PushAll(p.buckets, s.Exit)
	p.queue.Push(0, s.Offered...)
	for _, x := range s.Offered {
		p.sums.forget(x, now)
	}
	p.queue.Remove(s.Hit...)
	for _, x := range s.Hit {
		p.sums.enter(x, now)
	}
	for _, x := range s.Miss {
		p.sums.begin(x, now)
	}
}

// Evict appends the n blocks with the smallest sums.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	return p.queue.PopLowestBy(p, n, dst)
}

// Mixed reports whether blocks of a bucket may differ in their sums.
func (p *Policy) Mixed(b int32) bool { return p.mixed[b] != 0 }

// Sort puts blocks of a bucket in the order of their sums.
func (p *Policy) Sort(blocks []int32) { p.sums.sort(blocks) }
