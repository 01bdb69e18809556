package lru

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// stack answers every capacity C ≥ |D| at once. Residents after a step are D_t and the newest C -
// |D_t| blocks of the queue of an unbounded LRU. A cache that was ever full stays full, and one
// that was never full has every block seen. A block therefore hits at C if its distance is at most
// C. The distance is |D_{t-1}| plus its position from the queue's end (Mattson et al. 1970, for
// batches).
//
// Places in the queue are given out in order, and a bitset marks those that are taken. Positions
// are counts of bits, with no tree to update. Cost: O(1) per change of the demand and a scan of the
// places taken per step. Memory: 12 B per block of the context.
type stack struct {
	place []int32  // place of each block in the queue, otherwise absent
	owner []int32  // block that last got each place
	taken []uint64 // one bit per place, set if its owner still has it
	above []int32  // number of taken places behind each word of taken
	next  int      // next place to give out
	left  []int32  // places of the blocks that left last

	demand int32 // |D_{t-1}|
	seen   int32 // distinct blocks so far
}

// absent is the place of a block that is demanded or was never seen.
const absent = -1

var _ policies.Sweeper = (*Policy)(nil)

// Sweep returns a pass over all capacities.
func (p *Policy) Sweep(self policies.Policy) policies.Sweep {
	if self != policies.Policy(p) {
		return nil
	}
	return new(stack)
}

// Size returns the capacity.
func (q *stack) Size(capacity int) int32 { return int32(capacity) }

// Reset starts a stream. It makes twice as many places as blocks, so that moving the queue to the
// front costs O(1) per change.
func (q *stack) Reset(sc *policies.Scope, _ []int32) error {
	words := (2*sc.Blocks + 127) / 64
	q.place = policies.Fill(q.place, sc.Blocks, absent)
	q.owner = policies.Fill(q.owner, words*64, 0)
	q.taken = policies.Fill(q.taken, words, 0)
	q.above = policies.Fill(q.above, words, 0)
	q.next, q.demand, q.seen = 0, 0, 0
	return nil
}

// Distances applies a step.
func (q *stack) Distances(s *policies.Step, dst []int32) []int32 {
	at, n := len(dst), len(s.Miss)
	dst = slices.Grow(dst, n)[:at+n]
	first := q.leave(s.Miss)
	q.count(first >> 6)
	q.measure(dst[at:])
	q.free()
	q.join(s.Exit)
	q.join(s.Offered)
	q.leave(s.Hit)
	q.free()
	q.seen += int32(len(s.Offered))
	q.demand = int32(s.Demand)
	return dst
}

// leave removes blocks and returns the lowest of their places. It stores the places in q.left. They
// count as taken until free.
func (q *stack) leave(blocks []int32) (first int) {
	q.left = slices.Grow(q.left[:0], len(blocks))[:len(blocks)]
	lowest := uint32(q.next)
	for i, x := range blocks {
		p := q.place[x]
		q.left[i], q.place[x] = p, absent
		lowest = min(lowest, uint32(p)) // absent is larger than any
	}
	return int(lowest)
}

// free frees the places in q.left.
func (q *stack) free() {
	for _, p := range q.left {
		if p != absent {
			q.taken[p>>6] &^= 1 << (p & 63)
		}
	}
}

// count prepares positions from word first on.
func (q *stack) count(first int) {
	var n int32
	for w := (q.next - 1) >> 6; w >= first; w-- {
		q.above[w] = n
		n += int32(bits.OnesCount64(q.taken[w]))
	}
}

// measure fills in the distances of the places in q.left.
func (q *stack) measure(distances []int32) {
	for i, p := range q.left {
		if p == absent {
			distances[i] = policies.Never
			q.seen++
			continue
		}
		w := p >> 6
		distances[i] = q.demand + q.above[w] + int32(bits.OnesCount64(q.taken[w]>>(p&63)))
	}
}

// join gives blocks the next places.
func (q *stack) join(blocks []int32) {
	if q.next+len(blocks) > len(q.owner) {
		q.compact()
	}
	copy(q.owner[q.next:], blocks)
	for i, x := range blocks {
		q.place[x] = int32(q.next + i)
	}
	q.take(q.next, q.next+len(blocks))
	q.next += len(blocks)
}

// take marks the places [from, to).
func (q *stack) take(from, to int) {
	for from < to {
		w := from >> 6
		end := min(to, (w+1)<<6)
		q.taken[w] |= ^uint64(0) >> (64 - (end - from)) << (from & 63)
		from = end
	}
}

// compact moves the queue to the front and keeps its order.
func (q *stack) compact() {
	n := 0
	for w, set := range q.taken {
		for ; set != 0; set &= set - 1 {
			x := q.owner[w<<6|bits.TrailingZeros64(set)]
			q.owner[n], q.place[x] = x, int32(n)
			n++
		}
		q.taken[w] = 0
	}
	q.take(0, n)
	q.next = n
}

// Residents appends the number of blocks seen, or each size if it is smaller.
func (q *stack) Residents(sizes, dst []int32) []int32 {
	for _, c := range sizes {
		dst = append(dst, min(c, q.seen))
	}
	return dst
}
