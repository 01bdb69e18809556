package synthetic

import (
	"math/bits"
	"slices"
)

// outside draws candidates: blocks that a step does not demand.
type outside struct {
	plan    plan
	listed  []uint64 // bitset of blocks: demanded, or candidates of the step in hand
	missing []int32  // ranks for which any block will do
}

// candidates fills list with blocks that the step does not demand, best first: of those
// that left x steps before or will enter x steps after, a share of Near/x; then any.
func (k *ranker) candidates(list []int32) {
	o, p, t := &k.outside, k.p, k.now
	o.plan.set(p.dials.Near, max(1, churnOf(&p.dials, float64(p.topK))), len(list))
	o.listed = append(o.listed[:0], k.lasting...)
	ranks, spans := o.plan.ranks[p.random.below(int32(len(o.plan.ranks)))], len(o.plan.spans)
	limit := int32(p.tokens + t) // no token of the future
	o.missing = append(o.missing[:0], ranks[2*spans:]...)
	o.drawNear(list, p.left[:p.gone[t+1]], p.runs[p.first[t+1]:], limit, ranks[:2*spans], p.random)
	o.drawAny(list, limit, p.random)
}

// add puts block x into a set and returns 1 if it was not there yet, else 0.
func add(listed []uint64, x int32) int {
	w := &listed[x>>6]
	fresh := ^*w >> (x & 63) & 1
	*w |= 1 << (x & 63)
	return int(fresh)
}

// drawNear draws from the blocks that left, the last one last, and from the runs that begin
// next.
func (o *outside) drawNear(list, left []int32, next []run, limit int32, ranks []int32, r *random) {
	random, m, spans, unit := *r, len(o.missing), o.plan.spans, bits.TrailingZeros32(o.plan.unit)
	missing := slices.Grow(o.missing, len(ranks))[:m+len(ranks)]
	listed, ofLeft, ofNext := o.listed, ranks[:len(spans)], ranks[len(spans):][:len(spans)]
	for i, s := range spans {
		draw := random.Uint64()
		missing[m] = ofLeft[i]
		if j := s.place(uint32(draw)) >> unit; j < len(left) {
			x := left[len(left)-1-j]
			list[ofLeft[i]] = x
			m += 1 - add(listed, x)
		} else {
			m++
		}
		missing[m] = ofNext[i]
		if j := s.place(uint32(draw>>32)) >> unit; j < len(next) {
			x := next[j].block()
			list[ofNext[i]] = x
			m += 1 - add(listed, x)&int(uint32(x-limit)>>31)
		} else {
			m++
		}
	}
	*r, o.missing = random, missing[:m]
}

// drawAny fills what is missing with blocks below limit.
func (o *outside) drawAny(list []int32, limit int32, r *random) {
	random, listed, missing, i := *r, o.listed, o.missing, 0
	for tries := 16 * len(missing); i < len(missing) && tries > 0; tries-- {
		x := random.below(limit)
		list[missing[i]] = x
		i += add(listed, x)
	}
	for x := random.below(limit); i < len(missing); x = (x + 1) % limit { // nearly all are listed
		list[missing[i]] = x
		i += add(listed, x)
	}
	*r = random
}

// place is a place in the span, chosen by a draw.
func (s span) place(draw uint32) int { return int(s.begin) + int(uint64(s.width)*uint64(draw)>>32) }
