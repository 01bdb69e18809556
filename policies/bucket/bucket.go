// Package bucket is the queue that eviction orders are built from: ids in numbered
// buckets, first in first out within a bucket, the lowest or highest bucket popped
// first. Every operation is O(1) but for the search of the next bucket in use, which
// looks at 64 buckets at a time. There are no heaps: a heap costs ten times as much
// an event.
package bucket

import "math/bits"

// Queue holds ids 0 … n-1, each in at most one of its buckets.
type Queue struct {
	links []link // ids, then one sentinel a bucket
	ids   int32
	used  []uint64 // buckets in use, a bit each
	low   int      // no bucket in a word below is in use
	high  int      // no bucket in a word above is in use
	size  int
}

type link struct{ prev, next int32 }

// Reset empties the queue for ids 0 … ids-1 and the given number of buckets.
func (q *Queue) Reset(ids, buckets int) {
	n := ids + buckets
	if cap(q.links) < n {
		q.links = make([]link, n)
	}
	q.links = q.links[:n]
	for i := range q.links[:ids] {
		q.links[i].next = -1
	}
	for i := ids; i < n; i++ {
		q.links[i] = link{int32(i), int32(i)}
	}
	words := buckets>>6 + 1
	if cap(q.used) < words {
		q.used = make([]uint64, words)
	}
	q.used = q.used[:words]
	clear(q.used)
	q.ids, q.low, q.high, q.size = int32(ids), 0, 0, 0
}

// Len is the number of ids held.
func (q *Queue) Len() int { return q.size }

// Has reports whether id x is held.
func (q *Queue) Has(x int32) bool { return q.links[x].next >= 0 }

// Push appends x, which must not be held, to bucket b.
func (q *Queue) Push(b int32, x int32) {
	s := q.ids + b
	last := q.links[s].prev
	q.links[x] = link{last, s}
	q.links[last].next = x
	q.links[s].prev = x
	w := int(b >> 6)
	q.used[w] |= 1 << (uint32(b) & 63)
	q.low, q.high = min(q.low, w), max(q.high, w)
	q.size++
}

// Remove takes x, which must be held, out of its bucket.
func (q *Queue) Remove(x int32) {
	l := q.links[x]
	q.links[l.prev].next = l.next
	q.links[l.next].prev = l.prev
	q.links[x].next = -1
	if l.prev == l.next { // only the sentinel is left
		b := uint32(l.prev - q.ids)
		q.used[b>>6] &^= 1 << (b & 63)
	}
	q.size--
}

// PopLowest removes and returns the first id of the lowest bucket in use; -1 if empty.
func (q *Queue) PopLowest() int32 {
	if q.size == 0 {
		return -1
	}
	for q.used[q.low] == 0 {
		q.low++
	}
	return q.pop(q.low<<6 | bits.TrailingZeros64(q.used[q.low]))
}

// PopHighest removes and returns the first id of the highest bucket in use; -1 if empty.
func (q *Queue) PopHighest() int32 {
	if q.size == 0 {
		return -1
	}
	for q.used[q.high] == 0 {
		q.high--
	}
	return q.pop(q.high<<6 | (63 - bits.LeadingZeros64(q.used[q.high])))
}

func (q *Queue) pop(b int) int32 {
	x := q.links[int(q.ids)+b].next
	q.Remove(x)
	return x
}
