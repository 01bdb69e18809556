// Package bucket is the queue that eviction orders are built from: ids in numbered
// buckets, first in first out within a bucket, the lowest or highest bucket popped
// first. Push and Remove are O(1), Pop is O(1) amortised but for the search of the
// next bucket in use, which looks at 64 buckets at a time. There are no heaps: a heap
// costs ten times as much an event.
//
// An id that is removed leaves its entry behind, recognised by its place, so that a
// removal is one store; entries are written one behind the other, which caches like.
package bucket

import (
	"math/bits"

	"github.com/kvreplay/kvreplay/policies"
)

// Queue holds ids 0 … n-1, each in at most one of its buckets.
type Queue struct {
	place   []int32 // entry of each id, none where it is not held
	entries []entry
	ends    []end    // of each bucket
	used    []uint64 // buckets with entries, stale ones too, a bit each
	low     int      // no bucket in a word below is in use
	high    int      // no bucket in a word above is in use
	size    int
}

// entry is an id in its bucket; stale once place disagrees.
type entry struct{ id, next int32 }

type end struct{ head, tail int32 }

const none = -1

// Reset empties the queue for ids 0 … ids-1 and the given number of buckets.
func (q *Queue) Reset(ids, buckets int) {
	q.place = policies.Fill(q.place, ids, none)
	q.ends = policies.Fill(q.ends, buckets, end{none, none})
	q.used = policies.Fill(q.used, buckets>>6+1, 0)
	q.entries, q.low, q.high, q.size = q.entries[:0], 0, 0, 0
}

// Len is the number of ids held.
func (q *Queue) Len() int { return q.size }

// Has reports whether id x is held.
func (q *Queue) Has(x int32) bool { return q.place[x] != none }

// Push appends x, which must not be held, to bucket b.
func (q *Queue) Push(b int32, x int32) {
	at := int32(len(q.entries))
	q.entries = append(q.entries, entry{x, none})
	q.place[x] = at
	e := &q.ends[b]
	if e.head >= 0 {
		q.entries[e.tail].next = at
	} else {
		e.head = at
		w := int(b >> 6)
		q.used[w] |= 1 << (uint32(b) & 63)
		q.low, q.high = min(q.low, w), max(q.high, w)
	}
	e.tail = at
	q.size++
}

// Remove takes x, which must be held, out of its bucket.
func (q *Queue) Remove(x int32) {
	q.place[x] = none
	q.size--
}

// PopLowest removes and returns the first id of the lowest bucket in use; -1 if empty.
func (q *Queue) PopLowest() int32 {
	if q.size == 0 {
		return none
	}
	for {
		for q.used[q.low] == 0 {
			q.low++
		}
		if x := q.pop(q.low<<6 | bits.TrailingZeros64(q.used[q.low])); x >= 0 {
			return x
		}
	}
}

// PopHighest removes and returns the first id of the highest bucket in use; -1 if empty.
func (q *Queue) PopHighest() int32 {
	if q.size == 0 {
		return none
	}
	for {
		for q.used[q.high] == 0 {
			q.high--
		}
		if x := q.pop(q.high<<6 | (63 - bits.LeadingZeros64(q.used[q.high]))); x >= 0 {
			return x
		}
	}
}

// pop takes the first id out of bucket b; -1 where only stale entries were left, and
// the bucket is then out of use.
func (q *Queue) pop(b int) int32 {
	e := &q.ends[b]
	for e.head >= 0 {
		at := e.head
		first := q.entries[at]
		e.head = first.next
		if q.place[first.id] == at {
			q.Remove(first.id)
			return first.id
		}
	}
	q.used[b>>6] &^= 1 << (b & 63)
	return none
}
