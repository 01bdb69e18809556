// Package places is the queue of policies that keep blocks in order of insertion and search for
// victims with a hand. It is an array of places with a bit each for "outside the demand" and
// "demanded again". A hand passes 64 places at a time. Blocks are inserted and removed by the list,
// as a step names them.
package places

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// empty is the owner of a place whose block is gone, and the place of such a block.
const empty = -1

// Queue is the resident blocks, each at a place, oldest insertion first. A place is open while its
// block is outside the demand. Only open places can be found. A place is marked if its block was
// demanded again since its insertion or since a hand last passed it.
type Queue struct {
	owner   []int32 // block at each place
	place   []int32 // place of each block
	words   []word  // one per 64 places, len(owner)/64 + 1 in all
	live    int     // number of places that are not empty
	shown   int     // number of places that are open
	fetched []int32 // blocks that the last step fetched
	fresh   []uint64
}

// word has two bits for each of 64 places.
type word struct{ open, marked uint64 }

// Reset empties the queue for blocks 0 … blocks-1.
func (q *Queue) Reset(blocks int) {
	q.place = policies.Fill(q.place, blocks, empty)
	q.fresh = policies.Fill(q.fresh, blocks>>6+1, 0)
	q.owner, q.fetched = q.owner[:0], q.fetched[:0]
	q.words = append(q.words[:0], word{})
	q.live, q.shown = 0, 0
}

// Len returns the number of places, empty ones included.
func (q *Queue) Len() int { return len(q.owner) }

// Has reports whether x is resident.
func (q *Queue) Has(x int32) bool { return q.place[x] != empty }

// Insert gives blocks new last places, closed and unmarked. None of them may be resident.
func (q *Queue) Insert(blocks []int32) {
	n := len(q.owner)
	q.owner = append(q.owner, blocks...)
	for len(q.words) <= len(q.owner)>>6 {
		q.words = append(q.words, word{})
	}
	for i, x := range blocks {
		at := n + i
		q.place[x] = int32(at)
		q.words[at>>6].marked &^= 1 << (at & 63)
	}
	q.live += len(blocks)
}

// Put gives each block the empty place at the same index of places, closed and unmarked. None of the
// blocks may be resident.
func (q *Queue) Put(blocks, places []int32) {
	places = places[:len(blocks)]
	for i, x := range blocks {
		at := places[i]
		q.owner[at], q.place[x] = x, at
		q.words[at>>6].marked &^= 1 << (at & 63)
	}
	q.live += len(blocks)
}

// Fetch notes the blocks that a step fetches.
func (q *Queue) Fetch(blocks []int32) {
	for _, x := range q.fetched {
		q.fresh[x>>6] = 0
	}
	q.fetched = append(q.fetched[:0], blocks...)
	for _, x := range blocks {
		q.fresh[x>>6] |= 1 << (x & 63)
	}
}

// Fetched reports whether the last step fetched x.
func (q *Queue) Fetched(x int32) bool { return q.fresh[x>>6]>>(x&63)&1 != 0 }

// Unfetch forgets that the last step fetched x.
func (q *Queue) Unfetch(x int32) { q.fresh[x>>6] &^= 1 << (x & 63) }

// Leave opens the places of blocks that leave the demand. It marks the blocks that the last step
// did not fetch, because more than their fetching step demanded them.
func (q *Queue) Leave(blocks []int32) {
	for _, x := range blocks {
		again := ^q.fresh[x>>6] >> (x & 63) & 1
		at := q.place[x]
		w := &q.words[at>>6]
		w.open |= 1 << (at & 63)
		w.marked |= again << (at & 63)
	}
	q.shown += len(blocks)
}

// Open opens the places of blocks that were never demanded.
func (q *Queue) Open(blocks []int32) {
	for _, x := range blocks {
		at := q.place[x]
		q.words[at>>6].open |= 1 << (at & 63)
	}
	q.shown += len(blocks)
}

// Enter closes the open places of blocks that enter the demand. Marks stay.
func (q *Queue) Enter(blocks []int32) {
	for _, x := range blocks {
		at := q.place[x]
		q.words[at>>6].open &^= 1 << (at & 63)
	}
	q.shown -= len(blocks)
}

// Remove empties the closed place of x and returns it.
func (q *Queue) Remove(x int32) (at int32) {
	at = q.place[x]
	q.owner[at], q.place[x] = empty, empty
	q.live--
	return at
}

// Sweep moves a hand round from a place until it has found n open places without a mark, or all
// open ones. It clears the marks of the open places that it passes. It closes the found places and
// appends them to dst. stop is the place behind the last one found.
func (q *Queue) Sweep(hand, n int, dst []int32) (places []int32, stop int) {
	n = max(0, min(n, q.shown))
	q.shown -= n
	had := len(dst)
	dst = slices.Grow(dst, n+2)[:had+n+2]
	from := ^uint64(0) << (hand & 63)
	for w := hand >> 6; n > 0; w, from = w+1, ^uint64(0) {
		if w == len(q.words) {
			w, from = 0, ^uint64(0)
		}
		passed := q.words[w].open & from
		found := passed &^ q.words[w].marked
		if k := bits.OnesCount64(found); k < n {
			n -= k
		} else {
			last := nth(found, n)
			hand, n = w<<6|last+1, 0
			passed &= 1<<last<<1 - 1
			found &= passed
		}
		q.words[w].marked &^= passed
		q.words[w].open &^= found
		had += putBits(dst[had:], int32(w<<6), found)
	}
	return dst[:had], hand
}

// nth returns the position of the n-th bit of a set, counted from 1.
func nth(set uint64, n int) int {
	for ; n > 1; n-- {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}

// putBits writes base plus the position of each bit of a set to dst, and returns their number. dst
// has two places to spare. Two are written before their bits are checked, so a word with at most
// two bits costs no mispredicted branch.
func putBits(dst []int32, base int32, set uint64) int {
	n := bits.OnesCount64(set)
	for i := 0; i < max(n, 2); i++ {
		dst[i] = base | int32(bits.TrailingZeros64(set))
		set &= set - 1
	}
	return n
}

// Vacate empties closed places and appends their blocks to dst.
func (q *Queue) Vacate(places, dst []int32) []int32 {
	for _, at := range places {
		x := q.owner[at]
		q.owner[at], q.place[x] = empty, empty
		dst = append(dst, x)
	}
	q.live -= len(places)
	return dst
}

// Trim removes empty places from the end.
func (q *Queue) Trim() {
	n := len(q.owner)
	for n > 0 && q.owner[n-1] == empty {
		n--
	}
	q.cut(n)
}

func (q *Queue) cut(n int) {
	q.owner, q.words = q.owner[:n], q.words[:n>>6+1]
}

// Compact closes the gaps if more than three in four places would be empty after n further
// insertions. It returns the new place of hand, or of the next place that is not empty.
func (q *Queue) Compact(n, hand int) int {
	if len(q.owner)+n <= 4*(q.live+n)+64 {
		return hand
	}
	moved, to := 0, 0
	for at, x := range q.owner {
		if at == hand {
			moved = to
		}
		if x != empty {
			q.owner[to], q.place[x] = x, int32(to)
			q.move(at, to)
			to++
		}
	}
	q.cut(to)
	q.words[to>>6].open &= 1<<(to&63) - 1 // marks past the end are cleared by Insert
	return moved
}

// move copies the bits of a place down.
func (q *Queue) move(from, to int) {
	a, b := &q.words[from>>6], &q.words[to>>6]
	b.open = b.open&^(1<<(to&63)) | a.open>>(from&63)&1<<(to&63)
	b.marked = b.marked&^(1<<(to&63)) | a.marked>>(from&63)&1<<(to&63)
}
