package echo

import (
	"math/bits"
	"slices"
)

// Predictor names the blocks that the next step of a stream may demand, by the score of the policy. It
// observes the stream and no cache, so its answers depend on neither policy nor capacity.
type Predictor struct {
	history history
	ranked  []uint64
}

// Reset starts a stream of blocks 0 … blocks-1.
func (p *Predictor) Reset(blocks int) { p.history.reset(blocks, true, &published) }

// Step applies a step: its births, its demand D_t, and its candidates, best first. Without ranks there
// are no candidates.
func (p *Predictor) Step(births, demand, candidates []int32) {
	p.history.step(births, demand, candidates)
}

// Next appends to dst the blocks outside D_t to which the current step or one of the 64 before gave
// credit. The highest score comes first. Ties go to the lowest block index.
func (p *Predictor) Next(dst []int32) []int32 {
	h := &p.history
	p.ranked = p.ranked[:0]
	for w, rest := range h.active {
		for rest &^= h.demanded[w]; rest != 0; rest &= rest - 1 {
			x := int32(w<<6 | bits.TrailingZeros64(rest))
			p.ranked = append(p.ranked, (1<<32-1-order(h.score(x)))<<32|uint64(x))
		}
	}
	slices.Sort(p.ranked)
	for _, r := range p.ranked {
		dst = append(dst, int32(uint32(r)))
	}
	return dst
}
