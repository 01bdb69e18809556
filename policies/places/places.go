// Package places is the queue of policies that keep blocks in order of insertion and
// look for victims with a hand: an array of places with a bit each for "outside the
// demand" and "marked", so that a hand passes 64 places at a time.
package places

import (
	"math/bits"

	"github.com/kvreplay/kvreplay/policies"
)

// empty is the owner of a place whose block is gone, and the place of such a block.
const empty = -1

// Queue is the resident blocks, each at a place, oldest insertion first. A place is
// open while its block is outside the demand; only open places can be found.
type Queue struct {
	owner        []int32  // block at each place
	place        []int32  // of each block
	open, marked []uint64 // a bit a place; len = len(owner)/64 + 1
	live         int      // places that are not empty
	shown        int      // places that are open
}

// Reset empties the queue for blocks 0 … blocks-1.
func (q *Queue) Reset(blocks int) {
	q.place = policies.Fill(q.place, blocks, empty)
	q.owner = q.owner[:0]
	q.open, q.marked = append(q.open[:0], 0), append(q.marked[:0], 0)
	q.live, q.shown = 0, 0
}

// Len is the number of places, empty ones included.
func (q *Queue) Len() int { return len(q.owner) }

// Live is the number of blocks held.
func (q *Queue) Live() int { return q.live }

// Shown is the number of open places.
func (q *Queue) Shown() int { return q.shown }

// Has reports whether x is held.
func (q *Queue) Has(x int32) bool { return q.place[x] != empty }

// Owner is the block at a place that is not empty.
func (q *Queue) Owner(at int) int32 { return q.owner[at] }

// Insert gives x, which must not be held, a new last place, closed and unmarked.
func (q *Queue) Insert(x int32) {
	q.owner = append(q.owner, empty)
	if len(q.owner)>>6 == len(q.open) {
		q.open, q.marked = append(q.open, 0), append(q.marked, 0)
	}
	q.Put(x, len(q.owner)-1)
}

// Put gives x, which must not be held, an empty place, closed and unmarked.
func (q *Queue) Put(x int32, at int) {
	q.owner[at], q.place[x] = x, int32(at)
	q.marked[at>>6] &^= 1 << (at & 63)
	q.live++
}

// Show opens the place of x, which is held, and marks it if told to.
func (q *Queue) Show(x int32, mark bool) {
	at := uint32(q.place[x])
	bit := uint64(0)
	if mark {
		bit = 1
	}
	q.open[at>>6] |= 1 << (at & 63)
	q.marked[at>>6] |= bit << (at & 63)
	q.shown++
}

// Hide closes the place of x, which is open. Its mark stays.
func (q *Queue) Hide(x int32) {
	at := uint32(q.place[x])
	q.open[at>>6] &^= 1 << (at & 63)
	q.shown--
}

// Remove empties the place of x, which is closed, and returns it.
func (q *Queue) Remove(x int32) (at int) {
	at = int(q.place[x])
	q.owner[at], q.place[x] = empty, empty
	q.live--
	return at
}

// Requeue moves the block of an open place to a new last place, open and unmarked.
func (q *Queue) Requeue(at int) {
	x := q.owner[at]
	q.open[at>>6] &^= 1 << (at & 63)
	q.owner[at] = empty
	to := len(q.owner)
	q.owner = append(q.owner, x)
	if len(q.owner)>>6 == len(q.open) {
		q.open, q.marked = append(q.open, 0), append(q.marked, 0)
	}
	q.place[x] = int32(to)
	q.open[to>>6] |= 1 << (to & 63)
	q.marked[to>>6] &^= 1 << (to & 63)
}

// Next is the first open place from hand on, -1 if there is none.
func (q *Queue) Next(hand int) int {
	from := ^uint64(0) << (hand & 63)
	for w := hand >> 6; w < len(q.open); w++ {
		if found := q.open[w] & from; found != 0 {
			return w<<6 | bits.TrailingZeros64(found)
		}
		from = ^uint64(0)
	}
	return -1
}

// Sweep is the first open place from hand on that is unmarked, -1 if there is none.
// It clears the marks of the open places that it passes.
func (q *Queue) Sweep(hand int) int {
	from := ^uint64(0) << (hand & 63)
	for w := hand >> 6; w < len(q.open); w++ {
		if found := q.open[w] &^ q.marked[w] & from; found != 0 {
			at := bits.TrailingZeros64(found)
			q.marked[w] &^= q.open[w] & from & (1<<at - 1)
			return w<<6 | at
		}
		q.marked[w] &^= q.open[w] & from
		from = ^uint64(0)
	}
	return -1
}

// Trim takes empty places off the end.
func (q *Queue) Trim() {
	n := len(q.owner)
	for n > 0 && q.owner[n-1] == empty {
		n--
	}
	q.cut(n)
}

func (q *Queue) cut(n int) {
	q.owner = q.owner[:n]
	q.open, q.marked = q.open[:n>>6+1], q.marked[:n>>6+1]
}

// Compact closes the gaps if more than half of the places would be empty after n
// further insertions. It returns where the place that was at hand, or the next one
// that is not empty, is then.
func (q *Queue) Compact(n, hand int) int {
	if len(q.owner)+n <= 2*(q.live+n)+64 {
		return hand
	}
	moved, to := 0, 0
	for at, x := range q.owner {
		if at == hand {
			moved = to
		}
		if x != empty {
			q.owner[to], q.place[x] = x, int32(to)
			move(q.open, at, to)
			move(q.marked, at, to)
			to++
		}
	}
	q.cut(to)
	q.open[to>>6] &= 1<<(to&63) - 1 // marks past the end are cleared by Put
	return moved
}

// move copies a bit down.
func move(set []uint64, from, to int) {
	bit := set[from>>6] >> (from & 63) & 1
	set[to>>6] = set[to>>6]&^(1<<(to&63)) | bit<<(to&63)
}
