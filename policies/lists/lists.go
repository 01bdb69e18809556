// Package lists keeps dense ids in a few numbered lists, oldest first. Each id is in one list at
// most. Policies with several queues and ghosts are built from it.
//
// A list is an array in order of joining. An id that leaves keeps its entry, which is stale if it
// disagrees with the id's place. Leaving is therefore one store, and entries are written and read
// in order. Reserve compacts an array of mostly stale entries. Every operation is O(1) amortised.
// None has a branch that depends on whether an entry is stale.
package lists

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// None is the list of an id that is in none.
const None int32 = -1

// Max is the largest number of lists.
const Max = 1 << listBits

const (
	listBits = 2
	listMask = Max - 1
	slack    = 4096 // entries that an array may have before it is compacted
)

// Lists holds ids 0 … n-1. Memory: 4 B per id, and 4 B to 32 B for each id in a list.
type Lists struct {
	place []int32 // of each id: its entry's number and its list, -1 if it is in none
	lists [Max]list
}

type list struct {
	entries []int32
	head    int // entries before are stale
	size    int
}

// Reset empties the lists for ids 0 … ids-1.
func (l *Lists) Reset(ids int) {
	l.place = policies.Fill(l.place, ids, -1)
	for i := range l.lists {
		l.lists[i] = list{entries: l.lists[i].entries[:0]}
	}
}

// Len returns the length of a list.
func (l *Lists) Len(in int32) int { return l.lists[in].size }

// In returns the list of x, or None.
func (l *Lists) In(x int32) int32 {
	p := l.place[x]
	return p>>31 | p&listMask // no branch: the sign of an absent place is all ones
}

// Reserve makes room for n ids that join a list.
func (l *Lists) Reserve(in int32, n int) {
	q := &l.lists[in]
	if len(q.entries) > 8*q.size+slack {
		l.compact(in)
	}
	q.entries = slices.Grow(q.entries, n)
}

// compact drops the stale entries of a list.
func (l *Lists) compact(in int32) {
	q := &l.lists[in]
	kept := q.entries[:0]
	for i, x := range q.entries[q.head:] {
		if l.place[x] == int32(q.head+i)<<listBits|in {
			l.place[x] = int32(len(kept))<<listBits | in
			kept = append(kept, x)
		}
	}
	q.entries, q.head = kept, 0
}

// Push appends x, which must be in no list. The list must have room (Reserve).
func (l *Lists) Push(in int32, x int32) {
	q := &l.lists[in&listMask]
	at := len(q.entries)
	q.entries = q.entries[:at+1]
	q.entries[at] = x
	l.place[x] = int32(at)<<listBits | in
	q.size++
}

// PushAll makes room for ids that are in no list, and appends them.
func (l *Lists) PushAll(in int32, ids []int32) {
	l.Reserve(in, len(ids))
	q := &l.lists[in]
	n := len(q.entries)
	q.entries = append(q.entries, ids...)
	for i, x := range ids {
		l.place[x] = int32(n+i)<<listBits | in
	}
	q.size += len(ids)
}

// Drop removes x from its list, if it is in one, and returns that list or None.
func (l *Lists) Drop(x int32) int32 {
	p := l.place[x]
	l.lists[p&listMask].size -= 1 + int(p>>31)
	l.place[x] = -1
	return p>>31 | p&listMask
}

// DropAll removes ids from a list and returns the number of ids that were in it. The others must be
// in no list.
func (l *Lists) DropAll(in int32, ids []int32) (dropped int) {
	for _, x := range ids {
		dropped += 1 + int(l.place[x]>>31)
		l.place[x] = -1
	}
	l.lists[in].size -= dropped
	return dropped
}

// Pop removes the n oldest ids of a list, or all if there are fewer, and appends them
// to dst.
func (l *Lists) Pop(in int32, n int, dst []int32) []int32 {
	q := &l.lists[in]
	n = min(n, q.size)
	if n <= 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1] // a spare place lets the loop write before it checks
	head, k := q.head, 0
	for k < n {
		x := q.entries[head]
		out[k] = x
		if l.place[x] == int32(head)<<listBits|in {
			k++
		}
		head++
	}
	q.head, q.size = head, q.size-n
	dst = dst[:from+n]
	for _, x := range dst[from:] {
		l.place[x] = -1
	}
	return dst
}
