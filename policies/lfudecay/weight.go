package lfudecay

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// weight is a sum of powers of two: window·2^(32·chunk) plus the digits of its link.
// While its block is demanded, the mass at the stay's start is taken off already, so
// window is meant modulo 2^64; the stay's end adds the mass there.
//
// Only the window can change: a step of half-life e adds at bit e or above, and the
// window reaches down to a chunk that is not above e. What falls out below is final.
// It is wide enough: up to half-life e all steps together weigh less than H·2^(e+1),
// which is below 2^53 for e < 32 and H ≤ 2^20.
type weight struct {
	window uint64
	chunk  int32
	link   int32 // digits below the window, -1 for none
}

// digit is 32 bits of a weight at bit 32·chunk, not all of them zero.
type digit struct {
	value       uint32
	chunk, link int32 // link: the next digit below, -1 for none
}

// moment is a step as the sums see it. The mass of all steps from the stream's first
// half-life up to step t, but for a constant, is (H + t mod H)·2^⌊t/H⌋: a stay weighs
// the difference of two masses, however long it is.
type moment struct {
	chunk int32
	mass  uint64 // in units of 2^(32·chunk)
}

// ledger holds the weights of all blocks.
type ledger struct {
	weights  []weight
	digits   []digit
	keyed    []keyed // of blocks that are sorted
	halfLife int
	start    int // first step of the half-life that holds the stream's first step, ≤ 0
}

func (l *ledger) reset(sc *policies.Scope, halfLife int) {
	l.weights = policies.Fill(l.weights, sc.Blocks, weight{link: -1})
	l.digits = l.digits[:0]
	l.halfLife = halfLife
	l.start = -(sc.Windows + halfLife - 1) / halfLife * halfLife
}

// at is the moment at which step t begins.
func (l *ledger) at(t int) moment {
	e, r := (t-l.start)/l.halfLife, (t-l.start)%l.halfLife
	return moment{int32(e >> 5), uint64(l.halfLife+r) << (e & 31)}
}

// lengthAt is the number of bits of the largest sum before step t.
func (l *ledger) lengthAt(t int) int { return (t-l.start)/l.halfLife + 1 + bits.Len(uint(l.halfLife)) }

func (l *ledger) forget(x int32, now moment) { l.weights[x] = weight{chunk: now.chunk, link: -1} }

// begin forgets x and begins a stay.
func (l *ledger) begin(x int32, now moment) {
	l.weights[x] = weight{window: -now.mass, chunk: now.chunk, link: -1}
}

// enter begins a stay.
func (l *ledger) enter(x int32, now moment) {
	w := &l.weights[x]
	for w.chunk < now.chunk {
		l.roll(w)
	}
	w.window -= now.mass
}

// leave ends a stay. At the border of two chunks the mass is H·2^32 in units of the
// one and H in units of the other.
func (l *ledger) leave(x int32, now moment) {
	w := &l.weights[x]
	for w.chunk < now.chunk {
		w.window += uint64(l.halfLife) << 32
		l.roll(w)
		w.window -= uint64(l.halfLife)
	}
	w.window += now.mass
}

// roll moves the window up by a chunk.
func (l *ledger) roll(w *weight) {
	if low := uint32(w.window); low != 0 {
		l.digits = append(l.digits, digit{low, w.chunk, w.link})
		w.link = int32(len(l.digits) - 1)
	}
	w.window >>= 32
	w.chunk++
}

// lead is the number of bits of x's weight, the first 33 of them, and 1 if any below is
// set, else 0.
func (l *ledger) lead(x int32) (length int, first, more uint64) {
	w := l.weights[x]
	v, chunk, link := w.window, w.chunk, w.link
	for v>>32 == 0 && chunk > 0 {
		v, chunk = v<<32, chunk-1
		if link >= 0 && l.digits[link].chunk == chunk {
			v |= uint64(l.digits[link].value)
			link = l.digits[link].link
		}
	}
	n := bits.Len64(v)
	v <<= (64 - n) & 63
	if v<<33 != 0 || link >= 0 {
		more = 1
	}
	return int(chunk)<<5 + n, v >> 31, more
}

// compare orders two weights, exactly.
func (l *ledger) compare(x, y int32) int {
	a, b := l.weights[x], l.weights[y]
	for {
		da, db := l.pop(&a), l.pop(&b)
		if c := cmp.Or(cmp.Compare(da.chunk, db.chunk), cmp.Compare(da.value, db.value)); c != 0 || da.value == 0 {
			return c
		}
	}
}

// keyed is a block to be sorted among those of a bucket: by the leading bits of its
// weight and, where they do not tell all, by the weight.
type keyed struct {
	key   uint64 // odd if the weight has more bits
	block int32
}

// sort orders blocks of one bucket by their weights; equal ones stay as they are.
func (l *ledger) sort(blocks []int32) {
	l.keyed = l.keyed[:0]
	for _, x := range blocks {
		_, first, more := l.lead(x)
		l.keyed = append(l.keyed, keyed{first<<1 | more, x})
	}
	slices.SortStableFunc(l.keyed, func(a, b keyed) int {
		if a.key == b.key && a.key&1 != 0 {
			return l.compare(a.block, b.block)
		}
		return cmp.Compare(a.key, b.key)
	})
	for i := range l.keyed {
		blocks[i] = l.keyed[i].block
	}
}

// pop takes the highest digit off w; a digit of value 0 means that none is left.
func (l *ledger) pop(w *weight) (d digit) {
	switch high := uint32(w.window >> 32); {
	case high != 0:
		d = digit{value: high, chunk: w.chunk + 1}
		w.window = uint64(uint32(w.window))
	case w.window != 0:
		d = digit{value: uint32(w.window), chunk: w.chunk}
		w.window = 0
	case w.link >= 0:
		d = l.digits[w.link]
		w.link = d.link
	default:
		d.chunk = -1
	}
	return d
}

// maxBits makes buckets of a few blocks each: as many as are sorted at little cost.
const maxBits = 7

// coarse maps weights to buckets: one for each length and leading bits below the
// first, one for each weight where weights are small.
type coarse struct{ length, bits int }

// coarseFor chooses the leading bits for weights of up to length bits.
func coarseFor(length int) coarse {
	c := coarse{length, maxBits}
	for c.bits > 2 && c.buckets() > 1<<14 {
		c.bits--
	}
	return c
}

func (c coarse) buckets() int { return (c.length + 1) << c.bits }

// bucket is that of a weight of length ≥ 1, by its lead; mixed is not 0 if the weight has
// more bits than the bucket tells.
func (c coarse) bucket(length int, first, more uint64) (b int32, mixed uint64) {
	if length <= c.bits {
		return int32(first >> (33 - length)), 0
	}
	shift := (32 - c.bits) & 63
	return int32((length-c.bits-1)<<c.bits + int(first>>shift)), first&(1<<shift-1) | more
}
