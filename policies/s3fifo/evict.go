package s3fifo

import (
	"math/bits"
	"slices"
)

// evictSmall appends up to n blocks of the small queue to dst, oldest first (EVICTS of the paper).
// A block with a frequency above 1 moves to the main queue instead. evictSmall stops if the small
// queue has fewer than smallSize blocks. If the main queue has more than mainSize, it evicts one
// there and stops. It gathers as many blocks as can leave before a limit is reached, and repeats.
func (q *queues) evictSmall(n, smallSize, mainSize int, dst []int32) []int32 {
	in, to := &q.of[small], &q.of[main]
	for n > 0 && in.shown > 0 {
		free := max(1, mainSize-to.live+1)
		q.scratch = in.gather(min(n, in.shown, free, max(1, in.live-smallSize+1)), q.scratch)
		had, last := len(dst), false
		dst, last = q.rise(q.scratch, dst)
		evicted := len(dst) - had
		n -= evicted
		if len(q.scratch)-evicted == free {
			return q.evictMain(1, dst)
		}
		if last && in.live < smallSize {
			break
		}
	}
	return dst
}

// rise moves blocks of a frequency above 1 to the main queue and appends the others to dst. It
// reports whether the last block of met was appended.
func (q *queues) rise(met, dst []int32) (out []int32, last bool) {
	to, from := &q.of[main], len(dst)
	begin := to.room(len(met) + 1)
	dst = slices.Grow(dst, len(met)+1)
	out, entries, known := dst[from:from+len(met)+1], to.entries, q.blocks
	end, k, moved := begin, 0, 0
	number := gone + q.evicted + 1
	for _, x := range met {
		b := &known[x]
		out[k], entries[end] = x, x
		place := number + int32(k)
		inMain := int32(end)<<1 | main
		moved = 0
		if b.frequency > 1 {
			place, moved = inMain, 1
		}
		*b = block{place, 0}
		end += moved
		k += 1 - moved
	}
	to.join(begin, end, 1)
	q.evicted += int32(k)
	return dst[:from+k], moved == 0
}

// evictMain appends n blocks of the main queue to dst (EVICTM of the paper). The queue must have
// them. A block with a frequency above 0 goes back to the queue's end with one less.
func (q *queues) evictMain(n int, dst []int32) []int32 {
	for from := len(dst); len(dst)-from < n; {
		dst = q.turn(n-(len(dst)-from), dst)
	}
	return dst
}

// turn is evictMain for at most one turn of each open block of the queue.
func (q *queues) turn(n int, dst []int32) []int32 {
	in, from := &q.of[main], len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1]
	begin := in.room(in.shown + 1)
	entries, known := in.entries, q.blocks
	end, k := begin, 0
	for k < n && in.shown > 0 {
		w := in.next()
		rest := in.words[w].open
		for ; rest != 0 && k < n; rest &= rest - 1 {
			x := entries[w<<6|bits.TrailingZeros64(rest)]
			out[k], entries[end] = x, x
			frequency := known[x].frequency
			place, back := int32(end)<<1|main, 1
			if frequency == 0 {
				place, back = gone, 0
			}
			known[x] = block{place, frequency - 1}
			end += back
			k += 1 - back
		}
		in.take(w, rest)
	}
	in.join(begin, end, 1)
	return dst[:from+k]
}
