// Package random evicts a block drawn uniformly from those outside the demand.
//
// Source: the baseline of Belady, "A study of replacement algorithms for a virtual-storage
// computer", IBM Systems Journal 5(2), 1966 (RANDOM). It knows nothing. A policy that beats it does
// so by its knowledge.
//
// Step semantics: a victim is drawn among the residents that the step does not demand, the step's
// births included. Drawing is the whole rule, so uses and insertions do not matter and ties do not
// arise.
//
// Rule, in full, so that two implementations agree to the last miss: the outside set is a list,
// empty at the start. Blocks that leave the demand join at its end, ascending, then births,
// ascending. Then demanded blocks leave, ascending, and the last of the list takes the place of one
// that leaves. A draw is the place ⌊u·n / 2^64⌋ of n. u is the next number of PCG (O'Neill 2014,
// math/rand/v2) seeded by the stream's seed and 0x72616e646f6d. The victim leaves in the same way.
// No place is more likely than another by more than n / 2^64.
//
// The seed is the run's, mixed with the stream's key, so results depend neither on the order nor on
// the parallelism of streams. Cost: O(1) per change of the demand. Memory: 4 B per block of the
// context and 4 B per resident. Exact, online, no stack property. It loses to LRU at every capacity
// of the README's board. On traces of selectors that repeat themselves less (KVDrive's,
// RetroInfer's) it sometimes draws level.
package random

import (
	_ "embed" // the package comment is the policy's documentation
	"math/bits"
	"math/rand/v2"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed random.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "random",
	Summary: "evicts a block drawn uniformly, seeded",
	Source:  "Belady 1966, RANDOM",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Random: true, Memory: "4 B", Cost: "O(1)"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// salt keeps the draws apart from those of another policy with the same seed.
const salt = 0x72616e646f6d

// Policy is random eviction over one stream.
type Policy struct {
	list  []int32 // the outside set
	place []int32 // place of each member in list
	draws rand.PCG
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.list = p.list[:0]
	p.place = policies.Fill(p.place, sc.Blocks, 0)
	p.draws.Seed(sc.Seed, salt)
	return nil
}

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.join(s.Exit)
	p.join(s.Offered)
	for _, x := range s.Hit {
		p.leave(p.place[x])
	}
}

func (p *Policy) join(blocks []int32) {
	n := len(p.list)
	p.list = append(p.list, blocks...)
	for i, x := range blocks {
		p.place[x] = int32(n + i)
	}
}

// leave removes the block at a place. The last block takes its place.
func (p *Policy) leave(at int32) {
	last := len(p.list) - 1
	x := p.list[last]
	p.list[at], p.place[x] = x, at
	p.list = p.list[:last]
}

// Evict appends n drawn blocks.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	for n = min(n, len(p.list)); n > 0; n-- {
		at, _ := bits.Mul64(p.draws.Uint64(), uint64(len(p.list)))
		dst = append(dst, p.list[at])
		p.leave(int32(at))
	}
	return dst
}
