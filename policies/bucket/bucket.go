// Package bucket is the queue that eviction orders are built from: ids in numbered
// buckets, first in first out within a bucket, the lowest or highest bucket popped
// first. An id is pushed, removed and popped in O(1) amortised, but for the search of
// the next bucket in use, which looks at 64 buckets at a time. There are no heaps: a heap
// costs ten times as much an event.
//
// An id that is removed leaves its entry behind, recognised by its place, so that a
// removal is one store; entries are written one behind the other, which caches like.
// Ids go in and out by the list, as a step tells them, and in no loop is there a branch
// that depends on the id.
package bucket

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// Queue holds ids 0 … n-1, each in at most one of its buckets.
type Queue struct {
	place   []int32  // entry of each id, none where it is not held
	entries []entry  // one a bucket that stands before its first, then ids
	last    []int32  // last entry of each bucket
	used    []uint64 // buckets with entries, stale ones too, a bit each
	low     int      // no bucket in a word below is in use
	high    int      // no bucket in a word above is in use
	size    int
	by      []int32 // scratch of PushBy
}

// entry is an id in its bucket; stale once place disagrees.
type entry struct{ id, next int32 }

const none = -1

// Reset empties the queue for ids 0 … ids-1 and the given number of buckets.
func (q *Queue) Reset(ids, buckets int) {
	q.place = policies.Fill(q.place, ids, none)
	q.entries = policies.Fill(q.entries, buckets, entry{none, none})
	q.last = policies.Fill(q.last, buckets, 0)
	for b := range q.last {
		q.last[b] = int32(b)
	}
	q.used = policies.Fill(q.used, buckets>>6+1, 0)
	q.low, q.high, q.size = 0, 0, 0
}

// Len is the number of ids held.
func (q *Queue) Len() int { return q.size }

// Has reports whether id x is held.
func (q *Queue) Has(x int32) bool { return q.place[x] != none }

// Push appends ids, none of which may be held, to bucket b.
func (q *Queue) Push(b int32, ids ...int32) {
	q.by = slices.Grow(q.by[:0], len(ids))[:len(ids)]
	for i := range q.by {
		q.by[i] = b
	}
	q.PushAll(q.by, ids)
}

// PushBy appends each id x, not held, to bucket of[x].
func (q *Queue) PushBy(of, ids []int32) {
	q.by = slices.Grow(q.by[:0], len(ids))[:len(ids)]
	for i, x := range ids {
		q.by[i] = of[x]
	}
	q.PushAll(q.by, ids)
}

// PushAll appends each id, not held, to the bucket that is parallel to it. A number past
// the last bucket means the last.
func (q *Queue) PushAll(buckets, ids []int32) {
	n := len(q.entries)
	q.entries = slices.Grow(q.entries, len(ids))[:n+len(ids)]
	entries, last, place, added := q.entries, q.last, q.place, q.entries[n:]
	buckets = buckets[:len(ids)]
	for i, x := range ids {
		b, at := min(buckets[i], int32(len(last)-1)), int32(n+i)
		before := last[b]
		if before == b {
			q.use(b)
		}
		entries[before].next = at
		added[i] = entry{x, none}
		last[b], place[x] = at, at
	}
	q.size += len(ids)
}

// use notes that bucket b has an entry.
func (q *Queue) use(b int32) {
	w := int(b >> 6)
	q.used[w] |= 1 << (b & 63)
	q.low, q.high = min(q.low, w), max(q.high, w)
}

// Remove takes ids, which must be held, out of their buckets.
func (q *Queue) Remove(ids ...int32) {
	for _, x := range ids {
		q.place[x] = none
	}
	q.size -= len(ids)
}

// PopLowest removes n ids, or all if there are fewer, and appends them to dst: always
// the first id of the lowest bucket in use.
func (q *Queue) PopLowest(n int, dst []int32) []int32 {
	return q.pop(n, dst, func() int { return int(q.Lowest()) })
}

// PeekLowest is what PopLowest would remove first, which stays; false where the queue is
// empty.
func (q *Queue) PeekLowest() (int32, bool) {
	for q.size > 0 {
		b := q.Lowest()
		at := q.entries[b].next
		for at != none && q.place[q.entries[at].id] != at {
			at = q.entries[at].next
		}
		q.entries[b].next = at
		if at != none {
			return q.entries[at].id, true
		}
		q.last[b] = b
		q.used[b>>6] &^= 1 << (b & 63)
	}
	return none, false
}

// PopHighest is PopLowest from the other end: always the first id of the highest bucket
// in use.
func (q *Queue) PopHighest(n int, dst []int32) []int32 {
	return q.pop(n, dst, func() int {
		for q.used[q.high] == 0 {
			q.high--
		}
		return q.high<<6 | (63 - bits.LeadingZeros64(q.used[q.high]))
	})
}

// Order is an order of ids within buckets.
type Order interface {
	// Mixed reports whether ids of bucket b may differ in the order.
	Mixed(b int32) bool
	// Sort puts ids of one bucket in order; equal ones stay as they are.
	Sort(ids []int32)
}

// PopLowestBy is PopLowest where ids have an order within their buckets too: it appends
// the n lowest. Only a bucket that gives up a part of its ids is sorted.
func (q *Queue) PopLowestBy(order Order, n int, dst []int32) []int32 {
	n = min(n, q.size)
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, q.size+1)
	out := dst[from : from+q.size+1] // one spare place lets take write before it knows
	for k := 0; ; {
		b, most := q.Lowest(), n
		if order.Mixed(b) {
			most = q.size
		}
		end := k + q.take(int(b), out[k:most+1])
		if end >= n {
			q.size -= end
			if end > n {
				order.Sort(out[k:end])
				q.Push(b, out[n:end]...)
			}
			return dst[:from+n]
		}
		k = end
	}
}

// Lowest is the lowest bucket in use. The queue must not be empty, but the bucket may
// be, of late.
func (q *Queue) Lowest() int32 {
	for q.used[q.low] == 0 {
		q.low++
	}
	return int32(q.low<<6 | bits.TrailingZeros64(q.used[q.low]))
}

// PopBucket removes the ids of bucket b and appends them to dst.
func (q *Queue) PopBucket(b int32, dst []int32) []int32 {
	from := len(dst)
	dst = slices.Grow(dst, q.size+1)
	n := q.take(int(b), dst[from:from+q.size+1])
	q.size -= n
	return dst[:from+n]
}

// pop removes n ids, or all, from the buckets that next names.
func (q *Queue) pop(n int, dst []int32, next func() int) []int32 {
	n = min(n, q.size)
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1] // one spare place lets take write before it knows
	for k := 0; k < n; {
		k += q.take(next(), out[k:])
	}
	q.size -= n
	return dst[:from+n]
}

// take moves the first ids of bucket b to out, all but one place of it at most, and
// returns their number. A bucket with no more entries is out of use.
func (q *Queue) take(b int, out []int32) (n int) {
	at := q.entries[b].next
	for at != none && n < len(out)-1 {
		e := q.entries[at]
		out[n] = e.id
		if q.place[e.id] == at {
			n++
		}
		at = e.next
	}
	q.entries[b].next = at
	if at == none {
		q.last[b] = int32(b)
		q.used[b>>6] &^= 1 << (b & 63)
	}
	for _, x := range out[:n] {
		q.place[x] = none
	}
	return n
}
