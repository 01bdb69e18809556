package s3fifo

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// The queues.
const (
	small int32 = iota // 0: places in it are twice an entry
	main
)

// queues are the residents, each in one of two queues, and the ghosts.
type queues struct {
	of      [2]queue
	blocks  []block
	evicted int32 // number of the last eviction that left a ghost, counted from remembered
	ghosts  int32 // evictions that are remembered
}

// queue is an array of entries, oldest first, some of them empty. Past the last one no
// word has a bit.
type queue struct {
	entries []int32 // blocks
	words   []word
	low     int // within a call of Evict: no word before has an open entry
	live    int // entries that are held
	shown   int // entries that are open
}

// word is a bit for each of 64 entries: held where there is a block, open where it is
// outside the demand.
type word struct{ held, open uint64 }

// block is what is known of a block. place is twice its entry plus its queue, or, where
// it is not resident, gone plus the number of its eviction, if it left a ghost that
// nobody took. frequency is, while it is demanded, less the step from which demanded
// steps count as hits.
type block struct{ place, frequency int32 }

const (
	gone  = math.MinInt32
	slack = 1024 // entries that a queue may hold before it is compacted
)

func (q *queues) reset(blocks, ghosts int) {
	q.blocks = policies.Fill(q.blocks, blocks, block{place: gone})
	for i := range q.of {
		old := &q.of[i]
		q.of[i] = queue{entries: old.entries[:0], words: append(old.words[:0], word{})}
	}
	q.ghosts = int32(ghosts)
	q.evicted = q.ghosts // so that a block without a ghost, number 0, is not remembered
}

// room makes the queue n entries longer and returns where they begin; none is held.
func (q *queue) room(n int) (end int) {
	end = len(q.entries)
	q.entries = slices.Grow(q.entries, n)[:end+n]
	for len(q.words) <= (end+n)>>6 {
		q.words = append(q.words, word{})
	}
	return end
}

// join makes the entries [from, to) the queue's last. They are held, and open if told to.
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

// bear appends blocks that left the local window to the small queue, open.
func (q *queues) bear(blocks []int32) {
	in := &q.of[small]
	at := in.room(len(blocks))
	for i, x := range blocks {
		in.entries[at+i] = x
		q.blocks[x] = block{place: int32(at+i) << 1}
	}
	in.join(at, at+len(blocks), 1)
}

// fetch appends blocks: to the main queue what is remembered, else to the small one. In
// all that follows a block is written to both places that it may take before it is known
// which, so that no branch is mispredicted.
func (q *queues) fetch(blocks []int32, frequency int32) {
	beginA, beginB := q.of[small].room(len(blocks)+1), q.of[main].room(len(blocks)+1)
	a, b, newcomers, rest := beginA, beginB, q.of[small].entries, q.of[main].entries
	for _, x := range blocks {
		newcomers[a], rest[b] = x, x
		place, inMain, again := int32(a)<<1, int32(b)<<1|main, 0
		if number := q.blocks[x].place - gone; q.evicted-number < q.ghosts {
			place, again = inMain, 1
		}
		q.blocks[x] = block{place, frequency}
		a += 1 - again
		b += again
	}
	q.of[small].join(beginA, a, 0)
	q.of[main].join(beginB, b, 0)
}

// leave opens blocks that leave the demand before step t.
func (q *queues) leave(blocks []int32, t int32) {
	inMain := 0
	for _, x := range blocks {
		b := q.blocks[x]
		q.blocks[x].frequency = min(b.frequency+t, maxFrequency)
		q.of[b.place&1].words[b.place>>7].open |= 1 << (b.place >> 1 & 63)
		inMain += int(b.place & 1)
	}
	q.of[main].shown += inMain
	q.of[small].shown += len(blocks) - inMain
}

// enter closes blocks that enter the demand at step t.
func (q *queues) enter(blocks []int32, t int32) {
	inMain := 0
	for _, x := range blocks {
		b := q.blocks[x]
		q.blocks[x].frequency = b.frequency - t
		q.of[b.place&1].words[b.place>>7].open &^= 1 << (b.place >> 1 & 63)
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
		in.words[at>>7].held &^= 1 << (at >> 1 & 63)
		in.live--
		q.blocks[x].place = gone
	}
}

// first is the number of the first word with an open entry, if there is one.
func (q *queue) first() int {
	for q.words[q.low].open == 0 {
		q.low++
	}
	return q.low
}

// take empties those open entries of a word that are not in rest.
func (q *queue) take(w int, rest uint64) {
	taken := q.words[w].open &^ rest
	q.words[w].held &^= taken
	q.words[w].open = rest
	n := bits.OnesCount64(taken)
	q.live -= n
	q.shown -= n
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
	for k < n && in.shown > 0 && left >= 0 {
		w := in.first()
		rest := in.words[w].open
		for ; rest != 0 && k < n && left >= 0; rest &= rest - 1 {
			x := in.entries[w<<6|bits.TrailingZeros64(rest)]
			out[k], to.entries[end] = x, x
			live--
			place, inMain := gone+q.evicted+int32(k)+1, int32(end)<<1|main
			moved = 0
			if q.blocks[x].frequency > 1 {
				place, moved = inMain, 1
			}
			q.blocks[x] = block{place, 0}
			end += moved
			k += 1 - moved
			left = live - smallSize
			if moved != 0 {
				left = free - (end - begin)
			}
		}
		in.take(w, rest)
	}
	to.join(begin, end, 1)
	q.evicted += int32(k)
	if dst = dst[:from+k]; left < 0 && moved != 0 {
		dst = q.evictMain(1, dst)
	}
	return dst
}

// evictMain appends n blocks of the main queue, which must have them, to dst (EVICTM of the
// paper); what has a frequency goes back to the queue's end with one less.
func (q *queues) evictMain(n int, dst []int32) []int32 {
	for from := len(dst); len(dst)-from < n; {
		dst = q.turn(n-(len(dst)-from), dst)
	}
	return dst
}

// turn is evictMain until each open block of the queue has had its turn.
func (q *queues) turn(n int, dst []int32) []int32 {
	in, from := &q.of[main], len(dst)
	dst = slices.Grow(dst, n+1)
	out := dst[from : from+n+1]
	begin := in.room(in.shown + 1)
	end, k := begin, 0
	for k < n && in.shown > 0 {
		w := in.first()
		rest := in.words[w].open
		for ; rest != 0 && k < n; rest &= rest - 1 {
			x := in.entries[w<<6|bits.TrailingZeros64(rest)]
			out[k], in.entries[end] = x, x
			frequency := q.blocks[x].frequency
			place, back := int32(end)<<1|main, 1
			if frequency == 0 {
				place, back = gone, 0
			}
			q.blocks[x] = block{place, frequency - 1}
			end += back
			k += 1 - back
		}
		in.take(w, rest)
	}
	in.join(begin, end, 1)
	return dst[:from+k]
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
	c, to := &q.of[in], 0
	for w, old := range c.words {
		c.words[w] = word{}
		for held := old.held; held != 0; held &= held - 1 {
			bit := bits.TrailingZeros64(held)
			x := c.entries[w<<6|bit]
			c.entries[to] = x
			q.blocks[x].place = int32(to)<<1 | in
			c.words[to>>6].held |= 1 << (to & 63)
			c.words[to>>6].open |= old.open >> bit & 1 << (to & 63)
			to++
		}
	}
	c.entries, c.words = c.entries[:to], c.words[:to>>6+1]
}
