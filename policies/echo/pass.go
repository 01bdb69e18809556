package echo

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

// pass answers several capacities at once. They share the scores, which depend on no capacity. The
// residents at one capacity are also resident at each larger one. A block's level is therefore the
// first size at which it is resident.
type pass struct {
	history   history
	calibrate bool
	rule      *rule
	sizes     []int32
	levels    []uint16 // by block: number of the first size at which it is resident, or unseen
	outside   []uint64 // blocks outside D_t that are resident at the largest size, one bit per block
	at        []int    // number of blocks in outside by level
	last      []int32  // last use, for blocks in outside
	first     int32    // added to T to number the steps from 0
	seen      int32    // distinct blocks so far

	excess   []int                 // by size: number of victims of the step
	edges    []int32               // by size: bin of the last victim
	bounds   []int32               // by level: highest bin of the last victims at the sizes that choose from the level
	counts   [][1 << binBits]int32 // by level: blocks outside the demand by bin
	low      int32                 // lowest score
	shift    int                   // bits of a score within a bin
	scored   []scored
	eligible []bucket.Ranked
	victims  []int32
}

// binBits is the number of bits of the bins of scores.
const binBits = 6

// scored is a block and its score.
type scored struct{ score, block int32 }

// unseen is the level of a block that was never resident. A block that is resident no more has the
// level len(sizes).
const unseen = math.MaxUint16

var _ policies.Sweeper = (*Policy)(nil)

// Sweep returns a pass over all capacities.
func (p *Policy) Sweep(self policies.Policy) policies.Sweep {
	if self != policies.Policy(p) {
		return nil
	}
	return &pass{calibrate: p.Calibrate, rule: p.rule}
}

// Size returns the capacity.
func (q *pass) Size(capacity int) int32 { return int32(capacity) }

// Reset starts a stream.
func (q *pass) Reset(sc *policies.Scope, sizes []int32) error {
	q.sizes, q.first, q.seen = slices.Compact(append(q.sizes[:0], sizes...)), int32(sc.Windows), 0
	q.levels = policies.Fill(q.levels, sc.Blocks, unseen)
	q.outside = policies.Fill(q.outside, sc.Blocks>>6+1, 0)
	q.last = policies.Fill(q.last, sc.Blocks, 0)
	q.at = policies.Fill(q.at, len(q.sizes)+1, 0)
	q.excess, q.edges, q.bounds = policies.Fill(q.excess, len(q.sizes), 0), policies.Fill(q.edges, len(q.sizes), 0), policies.Fill(q.bounds, len(q.sizes)+1, 0)
	q.counts = policies.Fill(q.counts, len(q.sizes), [1 << binBits]int32{})
	q.history.reset(sc.Blocks, q.calibrate, q.rule)
	return nil
}

// Distances applies a step.
func (q *pass) Distances(s *policies.Step, dst []int32) []int32 {
	for _, x := range s.Miss {
		level := q.levels[x]
		switch {
		case level == unseen:
			q.seen++
			dst = append(dst, policies.Never)
		case int(level) >= len(q.sizes):
			dst = append(dst, policies.Never)
		default:
			dst = append(dst, q.sizes[level])
			q.leave(x, level)
		}
		q.levels[x] = 0
	}
	q.join(s.Exit, s.T-1)
	q.join(s.Offered, s.T-1)
	q.seen += int32(len(s.Offered))
	for _, x := range s.Hit {
		q.leave(x, 0)
	}
	members := s.Members
	if s.Demand == 0 {
		members = nil
	}
	q.history.step(s.Offered, members, s.Candidates)
	q.evict(s.Demand)
	return dst
}

func (q *pass) join(blocks []int32, used int32) {
	for _, x := range blocks {
		q.outside[x>>6] |= 1 << (x & 63)
		q.levels[x], q.last[x] = 0, used
	}
	q.at[0] += len(blocks)
}

func (q *pass) leave(x int32, level uint16) {
	q.outside[x>>6] &^= 1 << (x & 63)
	q.at[level]--
}

// evict chooses the victims at each size, the smallest size first. A block that leaves at a size
// stays at the next one, until that has chosen its victims too. So the blocks to choose from are those
// whose level is at most the number of the size.
func (q *pass) evict(demand int) {
	resident, sizes := demand, 0
	for j, size := range q.sizes {
		resident += q.at[j]
		q.excess[j] = max(0, resident-int(size))
		if q.excess[j] > 0 {
			sizes = j + 1
		}
	}
	if sizes == 0 {
		return
	}
	q.read()
	q.divide(sizes)
	for j, n := range q.excess[:sizes] {
		if n == 0 {
			continue
		}
		edge := q.edges[j]
		q.victims, q.eligible = q.victims[:0], q.eligible[:0]
		for _, r := range q.scored {
			if int(q.levels[r.block]) > j {
				continue
			}
			switch bin := q.bin(r.score); {
			case bin < edge:
				q.victims = append(q.victims, r.block)
			case bin == edge:
				q.eligible = append(q.eligible, bucket.Ranked{Key: order(r.score), ID: r.block})
			}
		}
		q.victims = lowest(q.eligible, n-len(q.victims), q.last, q.first, q.victims)
		for _, x := range q.victims {
			q.at[q.levels[x]]--
			q.levels[x] = uint16(j + 1)
		}
		q.at[j+1] += len(q.victims)
	}
	for _, r := range q.scored {
		if int(q.levels[r.block]) == len(q.sizes) {
			q.outside[r.block>>6] &^= 1 << (r.block & 63)
		}
	}
	q.at[len(q.sizes)] = 0
}

// read lists the scores of all blocks outside the demand, and sets the bins to their range.
func (q *pass) read() {
	q.scored = q.scored[:0]
	h := &q.history
	low, high := int32(math.MaxInt32), int32(math.MinInt32)
	for w, rest := range q.outside {
		assessed, from := h.assessed[w], h.places[w]
		for ; rest != 0; rest &= rest - 1 {
			b := bits.TrailingZeros64(rest)
			r := scored{block: int32(w<<6 | b)}
			if assessed>>b&1 != 0 {
				r.score = h.scores[from+int32(bits.OnesCount64(assessed&(1<<b-1)))]
			} else {
				r.score = h.score(r.block)
			}
			low, high = min(low, r.score), max(high, r.score)
			q.scored = append(q.scored, r)
		}
	}
	q.low, q.shift = low, max(0, bits.Len32(uint32(high-low))-binBits)
}

// bin returns the bin of a score. It rises with the score.
func (q *pass) bin(score int32) int32 { return int32(uint32(score-q.low) >> (q.shift & 31)) }

// divide finds the bin of the last victim at each of the first sizes. It drops the blocks from the list
// that leave at no size, because they are in higher bins than the last victims.
func (q *pass) divide(sizes int) {
	clear(q.counts)
	for _, r := range q.scored {
		q.counts[q.levels[r.block]][q.bin(r.score)&(1<<binBits-1)]++
	}
	var all [1 << binBits]int32 // number of blocks to choose from, by bin
	for j, n := range q.excess[:sizes] {
		for bin, count := range q.counts[j] {
			all[bin] += count
		}
		edge := int32(0)
		for n -= int(all[0]); n > 0; n -= int(all[edge]) {
			edge++
		}
		q.edges[j] = edge
	}
	q.bounds[sizes] = -1
	for j := sizes - 1; j >= 0; j-- {
		q.bounds[j] = max(q.bounds[j+1], q.edges[j])
	}
	kept := q.scored[:0]
	for _, r := range q.scored {
		if q.bin(r.score) <= q.bounds[min(int(q.levels[r.block]), sizes)] {
			kept = append(kept, r)
		}
	}
	q.scored = kept
}

// Residents appends the number of blocks seen, or each size if it is smaller.
func (q *pass) Residents(sizes, dst []int32) []int32 {
	for _, c := range sizes {
		dst = append(dst, min(c, q.seen))
	}
	return dst
}
