// Package sorted is the queue of policies whose order has too many keys for a bucket
// each: ids in numbered buckets, ascending by key within a bucket, first in first out
// where keys are equal. The caller's buckets must grow with its keys and be fine
// enough to hold a few ids each; then every operation is O(1), and unlike a heap the
// queue gives up an id from anywhere without a search.
//
// Ids are held in slots, and the caller keeps the slot of each id: it has a record of
// the id at hand anyway, while slots are few and stay in the processor's cache. A
// bucket is put in order when it must give up a part of its ids, not before.
package sorted

import (
	"cmp"
	"math/bits"
	"slices"
)

// Queue holds ids in slots.
//
// An odd key is one that was rounded down: where two odd keys of a bucket are equal,
// Order tells their ids apart. Even keys are exact, and Order is not asked.
type Queue struct {
	// Order compares two ids. It may be nil if all keys are even.
	Order func(x, y int32) int

	slots   []slot   // one sentinel a bucket, then ids
	free    int32    // slots without an id, linked by next; 0, which is a sentinel, ends them
	used    []uint64 // buckets in use, a bit each
	words   []uint64 // words of used in use, a bit each
	size    int
	scratch []int32
}

// slot holds an id, or is the sentinel of a bucket: then key is 0, and id is 1 if the
// bucket may be out of order.
type slot struct {
	key        uint64
	prev, next int32
	id         int32
}

// Place is where an id belongs: a bucket, and a key within it. To work out the places of
// many ids first and to push them then is faster than to alternate: the processor
// waits for the memory of several ids at once.
type Place struct {
	Bucket int32
	Key    uint64
}

// Reset empties the queue for the given number of buckets.
func (q *Queue) Reset(buckets int) {
	if cap(q.slots) < buckets {
		q.slots = make([]slot, buckets, 2*buckets)
	}
	q.slots = q.slots[:buckets]
	for i := range q.slots {
		q.slots[i] = slot{prev: int32(i), next: int32(i)}
	}
	q.used = zeros(q.used, buckets>>6+1)
	q.words = zeros(q.words, len(q.used)>>6+1)
	q.free, q.size = 0, 0
}

func zeros(s []uint64, n int) []uint64 {
	if cap(s) < n {
		return make([]uint64, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Len is the number of ids held.
func (q *Queue) Len() int { return q.size }

// Push puts x behind every id whose key is not larger, and returns its slot.
func (q *Queue) Push(at Place, x int32) int32 {
	b := at.Bucket
	last := q.slots[b].prev
	mixed := int32(0)
	if q.slots[last].key > at.Key&^1 { // no branch: the answer is hard to predict
		mixed = 1
	}
	q.slots[b].id |= mixed
	return q.insert(b, at.Key, x, last)
}

// PushFront puts x, which must be the lowest of its bucket, first.
func (q *Queue) PushFront(at Place, x int32) int32 {
	return q.insert(at.Bucket, at.Key, x, at.Bucket)
}

// insert puts x behind at, a slot of bucket b or its sentinel.
func (q *Queue) insert(b int32, key uint64, x, at int32) int32 {
	i := q.free
	if i != 0 {
		q.free = q.slots[i].next
	} else {
		i = int32(len(q.slots))
		q.slots = append(q.slots, slot{})
	}
	next := q.slots[at].next
	q.slots[i] = slot{key, at, next, x}
	q.slots[at].next = i
	q.slots[next].prev = i
	w := uint32(b) >> 6
	q.used[w] |= 1 << (uint32(b) & 63)
	q.words[w>>6] |= 1 << (w & 63)
	q.size++
	return i
}

// Remove takes the id of a slot out.
func (q *Queue) Remove(i int32) {
	n := &q.slots[i]
	prev, next := n.prev, n.next
	q.slots[prev].next = next
	q.slots[next].prev = prev
	n.next, q.free = q.free, i
	q.size--
	if prev == next { // only the sentinel is left
		q.unuse(uint32(prev))
	}
}

func (q *Queue) unuse(b uint32) {
	q.slots[b].id = 0
	w := b >> 6
	q.used[w] &^= 1 << (b & 63)
	if q.used[w] == 0 {
		q.words[w>>6] &^= 1 << (w & 63)
	}
}

// lowest is the lowest bucket in use, -1 if there is none.
func (q *Queue) lowest() int32 {
	for i, set := range q.words {
		if set != 0 {
			w := i<<6 | bits.TrailingZeros64(set)
			return int32(w<<6 | bits.TrailingZeros64(q.used[w]))
		}
	}
	return -1
}

// PopLowest removes and returns the lowest id; -1 if there is none.
func (q *Queue) PopLowest() int32 {
	b := q.lowest()
	if b < 0 {
		return -1
	}
	q.sort(b)
	i := q.slots[b].next
	q.Remove(i)
	return q.slots[i].id
}

// Pop removes the n lowest ids, or all, and appends them to dst in any order.
func (q *Queue) Pop(n int, dst []int32) []int32 {
	for n = min(n, q.size); n > 0; {
		b, had := q.lowest(), len(dst)
		if q.slots[b].id != 0 && q.longer(b, n) {
			q.sort(b)
		}
		dst = q.cut(b, n, dst)
		n -= len(dst) - had
	}
	return dst
}

// longer reports whether bucket b has more than n ids.
func (q *Queue) longer(b int32, n int) bool {
	i := q.slots[b].next
	for ; n > 0 && i != b; n-- {
		i = q.slots[i].next
	}
	return i != b
}

// cut removes the first n ids of bucket b, or all, and appends them to dst.
func (q *Queue) cut(b int32, n int, dst []int32) []int32 {
	first, last := q.slots[b].next, b
	for i := first; n > 0 && i != b; n-- {
		dst = append(dst, q.slots[i].id)
		q.size--
		last, i = i, q.slots[i].next
	}
	rest := q.slots[last].next
	q.slots[last].next, q.free = q.free, first
	q.slots[b].next = rest
	q.slots[rest].prev = b
	if rest == b {
		q.unuse(uint32(b))
	}
	return dst
}

// sort puts bucket b in order.
func (q *Queue) sort(b int32) {
	if q.slots[b].id == 0 {
		return
	}
	list := q.scratch[:0]
	for i := q.slots[b].next; i != b; i = q.slots[i].next {
		list = append(list, i)
	}
	slices.SortStableFunc(list, q.compare)
	last := b
	for _, i := range list {
		q.slots[last].next, q.slots[i].prev = i, last
		last = i
	}
	q.slots[last].next, q.slots[b].prev = b, last
	q.slots[b].id = 0
	q.scratch = list
}

func (q *Queue) compare(i, j int32) int {
	x, y := &q.slots[i], &q.slots[j]
	if x.key == y.key && x.key&1 != 0 {
		return q.Order(x.id, y.id)
	}
	return cmp.Compare(x.key, y.key)
}
