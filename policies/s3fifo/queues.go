package s3fifo

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// The queues.
const (
	small int32 = iota // 0: the place of an entry of small is twice its number
	main
)

// queues are the residents, each in one of two queues, and the ghosts.
type queues struct {
	of      [2]queue
	blocks  []block
	scratch []int32
	evicted int32 // number of the last eviction that left a ghost, counted from remembered
	ghosts  int32 // evictions that are remembered
}

// block is the state of a block. place is twice its entry plus its queue. If the block is not
// resident, place is gone, plus the number of its eviction if its ghost was not hit. While the
// block is demanded, frequency is reduced by the step from which demanded steps count as hits.
type block struct{ place, frequency int32 }

const (
	gone   = math.MinInt32
	spread = 6    // entries per held entry at which a queue is compacted
	slack  = 1024 // entries that a queue may have before it is compacted
)

func (q *queues) reset(blocks, ghosts int) {
	q.blocks = policies.Fill(q.blocks, blocks, block{place: gone})
	for i := range q.of {
		old := &q.of[i]
		q.of[i] = queue{entries: old.entries[:0], words: append(old.words[:0], word{})}
	}
	q.ghosts = int32(ghosts)
	q.evicted = q.ghosts // a block without a ghost, number 0, is not remembered
}

// listOf returns a list of n places, valid until the next call.
func (q *queues) listOf(n int) []int32 {
	q.scratch = slices.Grow(q.scratch[:0], n)[:n]
	return q.scratch
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

// fetch appends blocks to the main queue if they are remembered, otherwise to the small one. Here
// and below, a block is written to both possible places before its place is known, so no branch is
// mispredicted.
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

// leave opens blocks that leave the demand before step t. It looks places up before the writes that
// depend on them.
func (q *queues) leave(blocks []int32, t int32) {
	places, known := q.listOf(len(blocks)), q.blocks
	for i, x := range blocks {
		b := &known[x]
		places[i] = b.place
		b.frequency = min(b.frequency+t, maxFrequency)
	}
	inMain := 0
	words := [2][]word{q.of[small].words, q.of[main].words}
	for _, at := range places {
		words[at&1][at>>7].open |= 1 << (at >> 1 & 63)
		inMain += int(at & 1)
	}
	q.of[main].shown += inMain
	q.of[small].shown += len(blocks) - inMain
}

// enter closes blocks that enter the demand at step t.
func (q *queues) enter(blocks []int32, t int32) {
	places, known := q.listOf(len(blocks)), q.blocks
	for i, x := range blocks {
		b := &known[x]
		places[i] = b.place
		b.frequency -= t
	}
	inMain := 0
	words := [2][]word{q.of[small].words, q.of[main].words}
	for _, at := range places {
		words[at&1][at>>7].open &^= 1 << (at >> 1 & 63)
		inMain += int(at & 1)
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

// compact closes the gaps of queues with mostly empty entries.
func (q *queues) compact() {
	for in := range q.of {
		if c := &q.of[in]; len(c.entries) > spread*c.live+slack {
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
