// Package lookahead evicts the block that the current step's ranking likes least (KVDrive's
// lookahead eviction). The selection ranks M > K candidates. A block among the ranks K … M-1 is
// likely to be demanded next.
//
// Source: KVDrive, section 5.1, "lookahead eviction" (Table 3: K = 2048, M = 2560). The paper
// evicts the lowest current-step score. Ranks order the same way, so scores are not needed.
//
// Rule: the first victims are the residents outside the step's M candidates, least recently used
// first. The candidates follow, worst rank first. The paper does not state an order for residents
// without a score. An arbitrary order loses to LRU, and recency beats it.
//
// State: the LRU queue with a bit per place, so that candidates can be passed over and stay in it.
// The queue is compacted if most of its places are empty, so a candidate that stays costs neither
// time nor memory. Cost: O(1) per change of the demand and O(M-K) per step. In addition, it reads
// the bits of up to 8 places per resident. Memory: 8 B per block of the context and up to 33 B per
// resident. No stack property. Needs ranks. With M = K it is LRU. It loses to LRU if the ranking is
// noisy near K, and mostly to LRFU: on the README's board on every trace up to 2 × K.
package lookahead

import (
	_ "embed" // the package comment is the policy's documentation
	"math/bits"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed lookahead.go
var source string

// Entry is the policy's line in the table.
var Entry = policies.Entry{
	Name:    "lookahead",
	Summary: "evicts the block that the current ranking puts last, blocks outside the M candidates first",
	Source:  "KVDrive, lookahead eviction",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Memory: "8 B", Cost: "O(1) a change, O(M-K) a step"},
	New:     policies.NoOptions(func() policies.Policy { return new(Policy) }),
}

// Policy is lookahead eviction over one stream.
type Policy struct {
	place  []int32  // place of each block in order, -1 outside E
	order  []int32  // blocks in order of last use
	open   []uint64 // one bit per place, set if the place is taken
	live   int      // places that are taken
	head   int      // no place in a word before is taken
	ranked []int32  // call of Update at which a block was last a candidate
	calls  int32
	past   int32   // candidates of this call or before are outdated
	worst  []int32 // the step's candidates, best first
}

// Needs returns the need for the ranks K … M-1.
func (p *Policy) Needs() policies.Needs { return policies.NeedCandidates }

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	p.place = policies.Fill(p.place, sc.Blocks, -1)
	p.ranked = policies.Fill(p.ranked, sc.Blocks, 0)
	p.order, p.open, p.live, p.head = p.order[:0], p.open[:0], 0, 0
	if p.calls, p.past = 0, -1; sc.Followed { // the candidates of a stream last until its next call
		p.calls = int32(sc.Updates()) - 1
	}
	return nil
}

// Follows reports whether self is p: lookahead evicts by last use, candidates after all others.
func (p *Policy) Follows(self policies.Policy) bool { return self == policies.Policy(p) }

// Update applies a step.
func (p *Policy) Update(s *policies.Step) {
	p.calls++
	p.past++
	p.compact(len(s.Exit) + len(s.Offered))
	p.join(s.Exit)
	p.join(s.Offered)
	for _, x := range s.Hit {
		p.leave(x)
	}
	p.live -= len(s.Hit)
	p.worst = append(p.worst[:0], s.Candidates...)
	for _, x := range s.Candidates {
		p.ranked[x] = p.calls
	}
}

func (p *Policy) join(blocks []int32) {
	n := len(p.order)
	p.order = append(p.order, blocks...)
	for len(p.open) <= len(p.order)>>6 {
		p.open = append(p.open, 0)
	}
	for i, x := range blocks {
		p.place[x] = int32(n + i)
		p.open[(n+i)>>6] |= 1 << ((n + i) & 63)
	}
	p.live += len(blocks)
}

// compact closes up empty places if more than seven in eight would be empty after n more blocks
// have joined. Every place is moved or dropped O(1) times.
func (p *Policy) compact(n int) {
	if len(p.order)+n <= 8*(p.live+n)+1024 {
		return
	}
	to := 0
	for w := p.head; w < len(p.open); w++ {
		for rest := p.open[w]; rest != 0; rest &= rest - 1 {
			x := p.order[w<<6|bits.TrailingZeros64(rest)]
			p.order[to], p.place[x] = x, int32(to)
			to++
		}
	}
	p.order, p.open, p.head = p.order[:to], p.open[:to>>6+1], 0
	for w := range p.open {
		p.open[w] = ^uint64(0)
	}
	p.open[to>>6] = 1<<(to&63) - 1
}

func (p *Policy) leave(x int32) {
	at := uint32(p.place[x])
	p.open[at>>6] &^= 1 << (at & 63)
	p.place[x] = -1
}

// isCandidate reports whether x is in the latest candidates of its stream.
func (p *Policy) isCandidate(x int32) bool { return p.ranked[x] > p.past }

// Evict appends n blocks: outside the candidates by recency, then by worst rank.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	had, want := len(dst), len(dst)+n
	for p.head < len(p.order)>>6 && p.open[p.head] == 0 { // the last word is still being filled
		p.head++
	}
	for w := p.head; w < len(p.open) && len(dst) < want; w++ {
		for rest := p.open[w]; rest != 0 && len(dst) < want; rest &= rest - 1 {
			x := p.order[w<<6|bits.TrailingZeros64(rest)]
			if !p.isCandidate(x) {
				p.leave(x)
				dst = append(dst, x)
			}
		}
	}
	for i := len(p.worst) - 1; i >= 0 && len(dst) < want; i-- {
		if x := p.worst[i]; p.place[x] >= 0 {
			p.leave(x)
			dst = append(dst, x)
		}
	}
	p.live -= len(dst) - had
	return dst
}

// Peek returns the block that Evict would name first, without removing it.
func (p *Policy) Peek() (int32, bool) {
	for w := p.head; w < len(p.open); w++ {
		for rest := p.open[w]; rest != 0; rest &= rest - 1 {
			if x := p.order[w<<6|bits.TrailingZeros64(rest)]; !p.isCandidate(x) {
				return x, true
			}
		}
	}
	for i := len(p.worst) - 1; i >= 0; i-- {
		if x := p.worst[i]; p.place[x] >= 0 {
			return x, true
		}
	}
	return -1, false
}
