// Package s3fifo keeps new blocks in a small queue until a second look, and the rest in a main
// queue with second chances (S3-FIFO).
//
// Source: Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction", SOSP
// 2023, section 4.1 and Algorithm 1.
//
// Step semantics: an access is one demanded step of a block. A fetch inserts at its step with
// frequency 0. It inserts into the main queue if the ghost queue remembers the block (a ghost hit),
// otherwise into the small one. A birth inserts into the small queue at the step before its own.
// Within a step births come before fetches and lower indices before higher ones. Any further
// demanded step is a hit and raises the frequency, up to 3: in a stay of n steps that a fetch
// begins, n-1 steps do. Ghost hits use the ghost queue as the step before left it. A block of D_t
// is in use: it keeps its place and is passed over, and it counts in the size of its queue.
//
// Rule, with capacity C and s = max(1, ⌊small·C⌋): while the small queue has s blocks or more its
// oldest leaves, otherwise the main queue's oldest. In the small queue a block of frequency above 1
// moves to the main queue's head with frequency 0 instead. If the main queue then has more than C-s
// blocks, its oldest is evicted. A block evicted from the small queue enters the ghost queue. In
// the main queue a block of frequency above 0 goes back to the head with one less. If a queue has
// only blocks of D_t, the other one gives the victim. Queues order their blocks, so there are no
// ties.
//
// The ghost queue is the last C-s blocks evicted from the small queue. A ghost hit takes the block
// out, and its place stays empty.
//
// Options: small=0.1, the small queue's share of the capacity, 0.01 to 0.9 (the paper's 10 %,
// section 4.1 and its sensitivity study).
//
// State (queue.go, queues.go): the queues as entries in order of joining, with a bit per entry for
// "outside the demand". Each block has its entry, or the number of its eviction if it is a ghost,
// and its frequency. The share is the decimal exactly as written (policies.Part), applied at the
// start. Cost: O(1) per change of the demand, and 1/64 of the queues per step that evicts. Memory:
// 8 B per block of the context, and 4 B to 26 B per resident. Exact, online, no stack property.
// Differences from the paper: a whole step is inserted and counted before anything is evicted. One
// call evicts one block, where Algorithm 1 can evict two (lines 27-32). It loses to LRU if the
// small queue is shorter than the gaps between stays. New blocks then leave before they can come
// back, and only the ghost queue saves them.
package s3fifo

import (
	_ "embed" // the package comment is the policy's documentation

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed s3fifo.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "s3-fifo",
	Summary: "a small queue for new blocks, a main queue with second chances, a ghost queue",
	Source:  "Yang et al., SOSP 2023, Algorithm 1",
	Usage:   "s3-fifo:small=F, share of the capacity for new blocks, 0.01 to 0.9, default 0.1",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Sized: true, Memory: "8 B", Cost: "O(1)"},
	New: policies.WithOptions(Policy{Small: 0.1}, func(p *Policy) []policies.Option {
		return []policies.Option{policies.Float("small", &p.Small, 0.01, 0.9)}
	}),
}

// maxFrequency is the largest value of two bits.
const maxFrequency = 3

// Policy is S3-FIFO over one stream.
type Policy struct {
	Small float64 // share of the capacity that the small queue should have

	queues
	smallSize, mainSize int // target sizes of the queues
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.smallSize = max(1, policies.Part(p.Small, sc.Capacity))
	p.mainSize = sc.Capacity - p.smallSize
	p.reset(sc.Blocks, p.mainSize)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.leave(s.Exit, s.T)
	p.compact()
	p.bear(s.Offered)
	p.enter(s.Hit, s.T)
	p.fetch(s.Miss, -s.T-1)
	p.drop(s.Pass)
}

// Evict appends n blocks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	newcomers, rest := &p.of[small], &p.of[main]
	newcomers.low, rest.low = 0, 0
	for n = min(n, newcomers.shown+rest.shown); n > 0; {
		had := len(dst)
		if newcomers.shown == 0 || newcomers.live < p.smallSize && rest.shown > 0 {
			dst = p.evictMain(min(n, rest.shown), dst) // the change does not matter here
		} else {
			dst = p.evictSmall(n, p.smallSize, p.mainSize, dst)
		}
		n -= len(dst) - had
	}
	return dst
}
