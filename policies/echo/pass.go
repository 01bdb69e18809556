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

	keyed, eligible []bucket.Ranked
	victims         []int32
}

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
// stays at the next one, until that has chosen its victims too.
func (q *pass) evict(demand int) {
	resident, ready := demand, false
	for j, size := range q.sizes {
		resident += q.at[j]
		need := resident - int(size)
		if need <= 0 {
			continue
		}
		if !ready {
			q.key()
			ready = true
		}
		q.eligible = q.eligible[:0]
		for _, r := range q.keyed {
			if int(q.levels[r.ID]) <= j {
				q.eligible = append(q.eligible, r)
			}
		}
		q.victims = lowest(q.eligible, need, q.last, q.first, q.victims[:0])
		for _, x := range q.victims {
			q.at[q.levels[x]]--
			q.levels[x] = uint16(j + 1)
		}
		q.at[j+1] += len(q.victims)
		resident -= len(q.victims)
	}
	for _, r := range q.keyed {
		if int(q.levels[r.ID]) == len(q.sizes) {
			q.outside[r.ID>>6] &^= 1 << (r.ID & 63)
		}
	}
	q.keyed, q.at[len(q.sizes)] = q.keyed[:0], 0
}

// key reads the scores of all blocks outside the demand.
func (q *pass) key() {
	for w, rest := range q.outside {
		for ; rest != 0; rest &= rest - 1 {
			x := int32(w<<6 | bits.TrailingZeros64(rest))
			q.keyed = append(q.keyed, bucket.Ranked{Key: order(q.history.score(x)), ID: x})
		}
	}
}

// Residents appends the number of blocks seen, or each size if it is smaller.
func (q *pass) Residents(sizes, dst []int32) []int32 {
	for _, c := range sizes {
		dst = append(dst, min(c, q.seen))
	}
	return dst
}
