package s3fifo

import (
	"math/bits"
	"slices"
)

// queue is an array of entries, oldest first, some of them empty. Bits past the last entry are 0.
type queue struct {
	entries []int32 // blocks
	words   []word
	low     int // within a call of Evict: no word before has an open entry
	live    int // entries that are held
	shown   int // entries that are open
}

// word has two bits for each of 64 entries: held if it has a block, open if that block is outside
// the demand.
type word struct{ held, open uint64 }

// room makes the queue n entries longer and returns their start. They are not held.
func (q *queue) room(n int) (end int) {
	end = len(q.entries)
	q.entries = slices.Grow(q.entries, n)[:end+n]
	for len(q.words) <= (end+n)>>6 {
		q.words = append(q.words, word{})
	}
	return end
}

// join makes the entries [from, to) the queue's last. They are held, and open if open is 1.
func (q *queue) join(from, to int, open uint64) {
	q.entries = q.entries[:to]
	q.live += to - from
	q.shown += (to - from) * int(open)
	for from < to {
		w := from >> 6
		end := min(to, (w+1)<<6)
		mask := ^uint64(0) >> (64 - (end - from)) << (from & 63)
		q.words[w].held |= mask
		q.words[w].open |= mask * open
		from = end
	}
}

// gather empties the n oldest open entries, which must exist, and returns their blocks in dst's
// place. It reads four of a word at a time, present or not, so a word of at most four costs no
// mispredicted branch.
func (q *queue) gather(n int, dst []int32) []int32 {
	dst = slices.Grow(dst[:0], n+4)[:n+4]
	words, entries, w, k := q.words, q.entries, q.low, 0
	for k < n {
		for words[w].open == 0 {
			w++
		}
		b, group := &words[w], entries[w<<6:]
		set := b.open
		next := k + bits.OnesCount64(set)
		if next > n {
			set = first(set, n-k)
			next = n
		}
		b.held &^= set
		b.open &^= set
		for ; ; k += 4 {
			four := dst[k : k+4]
			four[0] = group[bits.TrailingZeros64(set)&63]
			set &= set - 1
			four[1] = group[bits.TrailingZeros64(set)&63]
			set &= set - 1
			four[2] = group[bits.TrailingZeros64(set)&63]
			set &= set - 1
			four[3] = group[bits.TrailingZeros64(set)&63]
			set &= set - 1
			if set == 0 {
				break
			}
		}
		k = next
	}
	q.low = w
	q.live -= n
	q.shown -= n
	return dst[:n]
}

// first returns the first n bits of a set.
func first(set uint64, n int) uint64 {
	rest := set
	for ; n > 0; n-- {
		rest &= rest - 1
	}
	return set &^ rest
}

// next returns the number of the first word with an open entry. There must be one.
func (q *queue) next() int {
	for q.words[q.low].open == 0 {
		q.low++
	}
	return q.low
}

// take empties the open entries of a word that are not in rest.
func (q *queue) take(w int, rest uint64) {
	taken := q.words[w].open &^ rest
	q.words[w].held &^= taken
	q.words[w].open = rest
	n := bits.OnesCount64(taken)
	q.live -= n
	q.shown -= n
}
