package s3fifo

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// The queues.
const (
	small int32 = iota
	main
)

// queues are the residents, each in one of two queues, and the ghosts.
type queues struct {
	of      [2]queue
	blocks  []block
	evicted int32 // number of the last eviction that left a ghost, counted from remembered
	ghosts  int32 // evictions that are remembered
}

// queue is an array of entries, oldest first, some of them empty, with a bit each for
// "outside the demand": these are open. Nothing is open past the last entry.
type queue struct {
	entries []int32 // blocks
	open    []uint64
	low     int // within a call of Evict: no word of open before has a bit
	live    int // entries that are not empty
	shown   int // entries that are open
}

// block is what is known of a block. place is twice its entry plus its queue, or, where
// it is not resident, gone plus the number of its eviction, if it left a ghost that
// nobody took. frequency is, while it is demanded, less the step from which demanded
// steps count as hits.
type block struct{ place, frequency int32 }

const (
	gone  = math.MinInt32
	empty = -1   // block of an empty entry
	slack = 1024 // entries that a queue may hold before it is compacted
)

func (q *queues) reset(blocks, ghosts int) {
	q.blocks = policies.Fill(q.blocks, blocks, block{place: gone})
	for i := range q.of {
		old := &q.of[i]
		q.of[i] = queue{entries: old.entries[:0], open: append(old.open[:0], 0)}
	}
	q.ghosts = int32(ghosts)
	q.evicted = q.ghosts // so that a block without a ghost, number 0, is not remembered
}

// room makes the queue n entries longer and returns where they begin; none is open.
func (q *queue) room(n int) (end int) {
	end = len(q.entries)
	q.entries = slices.Grow(q.entries, n)[:end+n]
	for len(q.open) <= (end+n)>>6 {
		q.open = append(q.open, 0)
	}
	return end
}

// show opens the entries [from, to).
func (q *queue) show(from, to int) {
	q.shown += to - from
	for from < to {
		w := from >> 6
		end := min(to, (w+1)<<6)
		q.open[w] |= ^uint64(0) >> (64 - (end - from)) << (from & 63)
		from = end
	}
}

// bear appends blocks that left the local window to the small queue, open.
func (q *queues) bear(blocks []int32) {
	in := &q.of[small]
	at := in.room(len(blocks))
	for i, x := range blocks {
		in.entries[at+i] = x
		q.blocks[x] = block{place: int32(at+i)<<1 | small}
	}
	in.live += len(blocks)
	in.show(at, at+len(blocks))
}

// fetch appends blocks: to the main queue what is remembered, else to the small one. In
// all that follows a block is written to both places that it may take before it is known
// which, so that no branch is mispredicted.
func (q *queues) fetch(blocks []int32, frequency int32) {
	a, b := q.of[small].room(len(blocks)+1), q.of[main].room(len(blocks)+1)
	first, newcomers, rest := a, q.of[small].entries, q.of[main].entries
	for _, x := range blocks {
		newcomers[a], rest[b] = x, x
		place, again := int32(a)<<1|small, 0
		if number := q.blocks[x].place - gone; q.evicted-number < q.ghosts {
			place, again = int32(b)<<1|main, 1
		}
		q.blocks[x] = block{place, frequency}
		a += 1 - again
		b += again
	}
	q.of[small].entries, q.of[main].entries = newcomers[:a], rest[:b]
	q.of[small].live += a - first
	q.of[main].live += len(blocks) - (a - first)
}

// leave opens blocks that leave the demand before step t.
func (q *queues) leave(blocks []int32, t int32) {
	inMain := 0
	for _, x := range blocks {
		b := &q.blocks[x]
		b.frequency = min(b.frequency+t, maxFrequency)
		q.of[b.place&1].open[b.place>>7] |= 1 << (b.place >> 1 & 63)
		inMain += int(b.place & 1)
	}
	q.of[main].shown += inMain
	q.of[small].shown += len(blocks) - inMain
}

// enter closes blocks that enter the demand at step t.
func (q *queues) enter(blocks []int32, t int32) {
	inMain := 0
	for _, x := range blocks {
		b := &q.blocks[x]
		b.frequency -= t
		q.of[b.place&1].open[b.place>>7] &^= 1 << (b.place >> 1 & 63)
		inMain += int(b.place & 1)
	}
	q.of[main].shown -= inMain
	q.of[small].shown -= len(blocks) - inMain
}

// drop forgets closed blocks.
func (q *queues) drop(blocks []int32) {
	for _, x := range blocks {
		at := q.blocks[x].place
		in := &q.of[at&1]
		in.entries[at>>1] = empty
		in.live--
		q.blocks[x].place = gone
	}
}

// first is the word of the first open entry of a queue that has one.
func (q *queue) first() int {
	for q.open[q.low] == 0 {
		q.low++
	}
	return q.low
}

// evictSmall appends up to n blocks of the small queue to dst, oldest first (EVICTS of the
// paper); what has a frequency above 1 moves to the main queue instead. It stops where
// the small queue has less than smallSize, or the main queue more than mainSize, and
// then evicts one there.
func (q *queues) evictSmall(n, smallSize, mainSize int, dst []int32) []int32 {
	in, to, from := &q.of[small], &q.of[main], len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1]
	begin := to.room(in.shown + 1)
	end, k, left, moved := begin, 0, 0, 0
	live, free := in.live, mainSize-to.live
	for k < n && live > in.live-in.shown && left >= 0 {
		word := in.first()
		rest := in.open[word]
		for ; rest != 0 && k < n && left >= 0; rest &= rest - 1 {
			at := word<<6 | bits.TrailingZeros64(rest)
			x := in.entries[at]
			in.entries[at] = empty
			out[k], to.entries[end] = x, x
			live--
			place := gone + q.evicted + int32(k) + 1
			moved = 0
			if q.blocks[x].frequency > 1 {
				place, moved = int32(end)<<1|main, 1
			}
			q.blocks[x] = block{place, 0}
			end += moved
			k += 1 - moved
			left = live - smallSize
			if moved != 0 {
				left = free - (end - begin)
			}
		}
		in.open[word] = rest
	}
	in.shown -= in.live - live
	in.live = live
	to.entries = to.entries[:end]
	to.live += end - begin
	to.show(begin, end)
	q.evicted += int32(k)
	if dst = dst[:from+k]; left < 0 && moved != 0 {
		dst = q.evictMain(1, dst)
	}
	return dst
}

// evictMain appends n blocks of the main queue, which must have them, to dst (EVICTM of the
// paper); what has a frequency goes back to the queue's end with one less.
func (q *queues) evictMain(n int, dst []int32) []int32 {
	in, from := &q.of[main], len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1]
	for k := 0; k < n; {
		word := in.first()
		begin := in.room(64)
		end, rest := begin, in.open[word]
		in.open[word] = 0
		in.shown -= bits.OnesCount64(rest)
		for ; rest != 0 && k < n; rest &= rest - 1 {
			at := word<<6 | bits.TrailingZeros64(rest)
			x := in.entries[at]
			in.entries[at] = empty
			out[k], in.entries[end] = x, x
			b := q.blocks[x]
			place, back := int32(end)<<1|main, 1
			if b.frequency == 0 {
				place, back = gone, 0
			}
			q.blocks[x] = block{place, b.frequency - 1}
			end += back
			k += 1 - back
		}
		in.open[word] |= rest
		in.shown += bits.OnesCount64(rest)
		in.entries = in.entries[:end]
		in.show(begin, end)
	}
	in.live -= n
	return dst[:from+n]
}

// compact closes the gaps of the queues where most entries are empty.
func (q *queues) compact() {
	for in := range q.of {
		if c := &q.of[in]; len(c.entries) > 8*c.live+slack {
			q.closeGaps(int32(in))
		}
	}
}

func (q *queues) closeGaps(in int32) {
	c := &q.of[in]
	kept := c.entries[:0]
	for at, x := range c.entries {
		if x != empty {
			to := len(kept)
			q.blocks[x].place = int32(to)<<1 | in
			open := c.open[at>>6] >> (at & 63) & 1
			c.open[to>>6] = c.open[to>>6]&^(1<<(to&63)) | open<<(to&63)
			kept = append(kept, x)
		}
	}
	c.entries = kept
	c.open = c.open[:len(kept)>>6+1]
	c.open[len(kept)>>6] &= 1<<(len(kept)&63) - 1
}
