package lfudecay

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

// weight is a sum of powers of two: window·2^(32·chunk) plus the digits of its link. While its
// block is demanded, the mass at the stay's start is already subtracted, so window is modulo 2^64.
// The end of the stay adds its mass.
//
// Only the window can change. A step of half-life e adds at bit e or above, and the window reaches
// down to a chunk that is not above e. The digits below the window are final. The window is wide
// enough: up to half-life e all steps together weigh less than H·2^(e+1), which is below 2^53 for e
// < 32 and H ≤ 2^20.
type weight struct {
	window uint64
	chunk  int32
	link   int32 // digits below the window, -1 for none
}

// digit is 32 bits of a weight at bit 32·chunk. At least one of them is set.
type digit struct {
	value       uint32
	chunk, link int32 // link: the next digit below, -1 for none
}

// moment is a step in the units of the sums. Up to a constant, the mass of all steps from the
// stream's first half-life to step t is (H + t mod H)·2^⌊t/H⌋. A stay of any length weighs the
// difference of two masses.
type moment struct {
	chunk int32
	mass  uint64 // in units of 2^(32·chunk)
}

// ledger stores the weights of all blocks.
type ledger struct {
	weights  []weight
	digits   []digit
	windows  []uint64       // of the blocks that leave
	keyed    []bucket.Keyed // of blocks that are sorted
	coarse   coarse
	halfLife int
	start    int // first step of the half-life that contains the stream's first step, ≤ 0
}

func (l *ledger) reset(sc *policies.Scope, halfLife int) {
	l.weights = policies.Fill(l.weights, sc.Blocks, weight{link: -1})
	l.digits = l.digits[:0]
	l.halfLife = halfLife
	l.start = -(sc.Windows + halfLife - 1) / halfLife * halfLife
	l.coarse = coarseFor(l.lengthAt(sc.Steps - sc.Windows))
}

// at returns the moment at which step t begins.
func (l *ledger) at(t int) moment {
	e, r := (t-l.start)/l.halfLife, (t-l.start)%l.halfLife
	return moment{int32(e >> 5), uint64(l.halfLife+r) << (e & 31)}
}

// lengthAt returns the number of bits of the largest sum before step t.
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

// leave ends the stays of blocks and fills in the buckets of their weights. mixed of a bucket
// becomes nonzero if a weight has more bits than the bucket number encodes.
func (l *ledger) leave(blocks []int32, now moment, buckets []int32, mixed []uint64) {
	if now.chunk == 0 && l.halfLife <= maxHalfLife {
		l.settle(blocks, now, buckets, mixed)
		return
	}
	for _, x := range blocks {
		l.rollTo(&l.weights[x], now)
	}
	l.settle(blocks, now, buckets, mixed)
	for i, x := range blocks { // windows too short or too long to give the bucket
		switch w := l.weights[x]; {
		case w.window>>l.coarse.bits == 0 && w.chunk > 0:
			v := l.pull(&w)
			buckets[i], _ = l.coarse.scale(w.chunk).bucket(v)
			mixed[buckets[i]] = 1
		case w.window>>53 != 0:
			buckets[i], _ = l.coarse.scale(w.chunk).bucket(sticky(w.window))
			mixed[buckets[i]] = 1
		}
	}
}

// settle adds now's mass to weights that are rolled to now. Two short loops fit into the registers
// and are faster than one.
func (l *ledger) settle(blocks []int32, now moment, buckets []int32, mixed []uint64) {
	l.windows = slices.Grow(l.windows[:0], len(blocks))[:len(blocks)]
	windows, weights, scale := l.windows, l.weights, l.coarse.scale(now.chunk)
	buckets = buckets[:len(blocks)]
	for i, x := range blocks {
		w := &weights[x]
		w.window += now.mass
		windows[i], buckets[i] = w.window, w.link
	}
	for i, v := range windows {
		b, rest := scale.bucket(v)
		mixed[b] |= rest | uint64(buckets[i]+1)
		buckets[i] = b
	}
}

// rollTo moves the window of a weight in its stay up to now. At the border of two chunks, the mass
// is H·2^32 in units of the lower and H in units of the upper chunk.
func (l *ledger) rollTo(w *weight, now moment) {
	for w.chunk < now.chunk {
		w.window += uint64(l.halfLife) << 32
		l.roll(w)
		w.window -= uint64(l.halfLife)
	}
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

// pull moves the window down by a chunk and returns it. It does so only if the window has at most
// 32 bits.
func (l *ledger) pull(w *weight) uint64 {
	w.window, w.chunk = w.window<<32, w.chunk-1
	if w.link >= 0 && l.digits[w.link].chunk == w.chunk {
		w.window |= uint64(l.digits[w.link].value)
		w.link = l.digits[w.link].link
	}
	return w.window
}

// top returns the window over the leading bits of x's weight, at least 33 bits if the weight has
// that many. below reports whether there are digits below.
func (l *ledger) top(x int32) (window uint64, below bool) {
	w := l.weights[x]
	for w.window>>32 == 0 && w.chunk > 0 {
		l.pull(&w)
	}
	return w.window, w.link >= 0
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

// sort orders blocks of one bucket by the tops of their weights. If the tops are equal, it compares
// the weights. The sort is stable.
func (l *ledger) sort(blocks []int32) {
	l.keyed = l.keyed[:0]
	more := false
	for i, x := range blocks {
		key, below := l.top(x)
		l.keyed = append(l.keyed, bucket.Keyed{Key: key, Tie: uint64(i), ID: x})
		more = more || below
	}
	bucket.Sort(l.keyed)
	for i := range l.keyed {
		blocks[i] = l.keyed[i].ID
	}
	for from, i := 0, 1; more && i <= len(blocks); i++ {
		if i == len(blocks) || l.keyed[i].Key != l.keyed[from].Key {
			slices.SortStableFunc(blocks[from:i], l.compare)
			from = i
		}
	}
}

// pop takes the highest digit off w. It returns a digit of value 0 if none is left.
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

// maxBits bounds the leading bits of a bucket, for buckets of a few blocks that cost little to
// sort.
const maxBits = 8

// coarse maps weights to buckets. There is one bucket for each length and leading bits below the
// first. Small weights have a bucket each. No bucket is lower than 1.
type coarse struct{ length, bits int }

// coarseFor chooses the leading bits for weights of up to length bits.
func coarseFor(length int) coarse {
	c := coarse{length, maxBits}
	for c.bits > 2 && c.buckets() > 1<<14 {
		c.bits--
	}
	return c
}

func (c coarse) buckets() int { return 1 + c.length<<c.bits }

// scale gives the buckets of weights in units of 2^(32·chunk).
type scale struct {
	zero  int32  // turns the exponent and leading bits of a float64 into the bucket
	shift int    // bits of a float64 that the bucket omits
	rest  uint64 // mask of those bits
}

func (c coarse) scale(chunk int32) scale {
	shift := 52 - c.bits
	return scale{1 + (32*chunk-1023)<<c.bits, shift, 1<<shift - 1}
}

// bucket returns the bucket of weight v. v has at most 53 bits and, unless the chunk is 0, more
// than coarse.bits. rest is not 0 if v has more bits than the bucket encodes.
func (s scale) bucket(v uint64) (b int32, rest uint64) {
	u := math.Float64bits(float64(max(int64(v), 1)))
	return s.zero + int32(u>>(s.shift&63)), u & s.rest
}

// sticky returns the leading bits of v and a last bit for the rest, as many as a float64 can store.
func sticky(v uint64) uint64 {
	last := uint64(1) << (bits.Len64(v) - 53)
	return v&^(last-1) | last
}
