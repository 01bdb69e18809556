package lru

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Queue is the outside set in order of last use. Other policies embed it.
type Queue struct {
	place []int32 // place of each block, -1 if it is demanded or was never seen
	order []int32 // blocks in the order of joining, stale if place disagrees
	base  int     // place of order[0]
	head  int     // entries of order before are stale
}

// Reset empties the queue for blocks 0 … blocks-1.
func (q *Queue) Reset(blocks int) {
	q.place = policies.Fill(q.place, blocks, -1)
	q.order, q.base, q.head = q.order[:0], 0, 0
}

// Update applies a step. Blocks that left the demand join, then births (SEMANTICS S3). Then
// demanded blocks leave.
func (q *Queue) Update(s *policies.Step) {
	q.join(s.Exit)
	q.join(s.Offered)
	for _, x := range s.Hit {
		q.place[x] = -1
	}
}

func (q *Queue) join(blocks []int32) {
	if len(q.order)+len(blocks) > cap(q.order) && q.head > len(q.order)/2 {
		q.slide()
	}
	n := q.Len()
	q.order = append(q.order, blocks...)
	for i, x := range blocks {
		q.place[x] = int32(n + i)
	}
}

// slide moves the order to the front of its memory. It does not change places.
func (q *Queue) slide() {
	q.base += q.head
	q.order = q.order[:copy(q.order, q.order[q.head:])]
	q.head = 0
}

// Len returns the number of places given out, which EvictTo takes as a mark.
func (q *Queue) Len() int { return q.base + len(q.order) }

// Evict appends the n least recently used blocks to dst.
func (q *Queue) Evict(n int, dst []int32) []int32 {
	if n <= 0 {
		return dst
	}
	at := len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[at : at+n+1] // a spare place lets the loop write before it checks
	place, base, head, k := q.place, q.base, q.head, 0
	for k < n && head < len(q.order) {
		x := q.order[head]
		out[k] = x
		if place[x] == int32(base+head) {
			k++
		}
		head++
	}
	q.head = head
	return dst[:at+k]
}

// Peek returns the least recently used block, without removing it.
func (q *Queue) Peek() (int32, bool) {
	for ; q.head < len(q.order); q.head++ {
		if x := q.order[q.head]; q.place[x] == int32(q.base+q.head) {
			return x, true
		}
	}
	return -1, false
}

// EvictTo appends every block whose place is before mark.
func (q *Queue) EvictTo(mark int, dst []int32) []int32 {
	for ; q.base+q.head < mark; q.head++ {
		if x := q.order[q.head]; q.place[x] == int32(q.base+q.head) {
			dst = append(dst, x)
		}
	}
	return dst
}
