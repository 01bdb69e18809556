package lrfu

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

// Rates are the decayed demand rates of a stream's blocks: the rate of a block at step
// t is Σ γ^(t-s) over the steps s ≤ t that demanded it. Package nearlrfu uses them too.
type Rates struct {
	blocks  []rate
	power   []float64      // γ^k
	stay    []float64      // Σ γ^i for i < n: what a stay of n steps adds
	scale   []scale        // γ^-k
	first   int32          // first step of the stream
	updates int32          // of a step
	bits    int            // leading bits of a bucket
	buckets []int32        // of the blocks that leave the demand
	values  []float64      // their rates
	keyed   []bucket.Keyed // blocks that are sorted
	front   bucket.Front   // of those blocks, the ones below the queue
	offered int            // blocks of the step that came to the queue after
}

// rate is a block's state: value is its rate at step last, the last that demanded it
// before the current stay, which began at step entered.
type rate struct {
	value         float64
	last, entered int32
}

// scale is a number mantissa·2^exponent with 1 ≤ mantissa < 2.
type scale struct {
	mantissa float64
	exponent int32
}

// Place is where a block outside the demand belongs: a bucket, and a key within it.
type Place struct {
	Bucket int32
	Key    uint64
}

// Reset forgets all rates. Places will be asked for rates that are raised by up to
// 2^headroom; it returns the number of buckets that they need.
//
// Every product that is added to is rounded first, by a conversion, so that no machine
// fuses the two: the same bits everywhere.
func (r *Rates) Reset(sc *policies.Scope, gamma float64, headroom int) (buckets int) {
	r.updates = int32(sc.Updates())
	r.first = int32(-sc.Windows) / r.updates
	r.blocks = policies.Fill(r.blocks, sc.Blocks, rate{last: r.first - 1})
	r.front.Reset()
	n := sc.Steps + 1
	r.power, r.stay = policies.Fill(r.power, n, 1), policies.Fill(r.stay, n, 0)
	r.scale = policies.Fill(r.scale, n, scale{1, 0})
	for i := 1; i < n; i++ {
		r.power[i] = r.power[i-1] * gamma
		r.stay[i] = float64(r.stay[i-1]*gamma) + 1
		r.scale[i] = r.scale[i-1].over(gamma)
	}
	octaves := int(r.scale[n-1].exponent) + math.Ilogb(1/(1-gamma)) + headroom + 3
	for r.bits = maxBits; r.bits > 2 && octaves<<r.bits > 1<<14; {
		r.bits--
	}
	return 1 + octaves<<r.bits
}

// maxBits makes buckets of a few blocks each: as many as are sorted at little cost.
const maxBits = 7

func (s scale) over(gamma float64) scale {
	for s.mantissa /= gamma; s.mantissa >= 2; s.exponent++ {
		s.mantissa /= 2
	}
	return s
}

// step is the step that an update belongs to.
func (r *Rates) step(t int32) int32 {
	if r.updates == 1 {
		return t
	}
	return (t-r.first*r.updates)/r.updates + r.first
}

// never reports whether x's rate is 0.
func (r *Rates) never(x int32) bool { return r.blocks[x].value == 0 }

// enter begins stays of blocks in the demand at step t.
func (r *Rates) enter(blocks []int32, t int32) {
	for _, x := range blocks {
		r.blocks[x].entered = t
	}
}

// leave ends the stays of blocks, and returns their buckets: step t is the first that
// does not demand them. What step t demands and does not keep (Step.Pass) leaves at t+1:
// step t counts, and a step that demands it again begins a stay.
func (r *Rates) leave(blocks []int32, t int32) (buckets []int32) {
	r.buckets = slices.Grow(r.buckets[:0], len(blocks))[:len(blocks)]
	buckets = r.buckets
	if len(blocks) == 0 {
		return buckets // at the first step there is none before
	}
	s := r.scale[t-1-r.first]
	zero, shift := r.zero(s), (52-r.bits)&63
	for i, v := range r.settle(blocks, t) {
		buckets[i] = zero + int32(math.Float64bits(v*s.mantissa)>>shift)
	}
	return buckets
}

// settle adds to the rates of blocks what they gained in stays that ended before step t,
// and returns them. Two short loops, for which there are registers enough, are faster than
// one.
func (r *Rates) settle(blocks []int32, t int32) (values []float64) {
	r.values = slices.Grow(r.values[:0], len(blocks))[:len(blocks)]
	values, all, power, stay, last := r.values, r.blocks, r.power, r.stay, t-1
	for i, x := range blocks {
		b := &all[x]
		b.value = float64(b.value*power[uint32(last-b.last)]) + stay[uint32(t-b.entered)]
		b.last = last
		values[i] = b.value
	}
	return values
}

// zero is what is added to the leading bits of a number, sign, exponent and fraction, to
// make them its bucket where it is to be scaled by s's exponent.
func (r *Rates) zero(s scale) int32 { return 1 - (1023-s.exponent)<<r.bits }

// Update applies a step to the rates and to the queue of the outside set, but for blocks
// that PopFront is to be asked for first; forget drops the rate of what was evicted and is
// fetched again.
func (r *Rates) Update(q *bucket.Queue, s *policies.Step, forget bool) {
	now := r.step(s.T)
	r.front.Push(q, r.leave(s.Exit, r.step(s.T-1)+1), s.Exit)
	r.offered = len(s.Offered)
	r.Join(q, s.Offered)
	q.Remove(s.Hit...)
	r.enter(s.Hit, now)
	if forget {
		for _, x := range s.Miss {
			r.blocks[x].value = 0
		}
	}
	r.enter(s.Miss, now)
	r.leave(s.Pass, now+1)
}

// PopFront appends the blocks of the latest step that Update did not queue, for having the
// lowest rates outside the demand, if they are among the n lowest, and queues them if not.
// Where any are appended, fewer than n are, and the queue is not empty.
func (r *Rates) PopFront(q *bucket.Queue, n int, dst []int32) []int32 {
	return r.front.Pop(q, n-r.offered, dst)
}

// Join puts blocks, which are outside the demand, into a queue by their rates.
func (r *Rates) Join(q *bucket.Queue, blocks []int32) {
	r.buckets = r.buckets[:0]
	for _, x := range blocks {
		r.buckets = append(r.buckets, r.Place(x, 1).Bucket)
	}
	q.PushAll(r.buckets, blocks)
}

// Place is where x's rate, raised by a factor ≥ 1, belongs: places order as
// value·γ^-last·factor does, and as ln value - last·ln γ + ln factor. x is outside the
// demand.
func (r *Rates) Place(x int32, factor float64) Place {
	b := &r.blocks[x]
	if b.value == 0 {
		return Place{}
	}
	s := r.scale[b.last-r.first]
	u := math.Float64bits(b.value * s.mantissa * factor)
	return Place{Bucket: r.zero(s) + int32(u>>(52-r.bits)), Key: u & (1<<52 - 1)}
}

// Sort puts blocks whose places are in one bucket in order: lowest key first, then least
// recently used, then lowest index. Those of rate 0 stay as they are. A block's rate is
// raised by the factor that is parallel to it.
func (r *Rates) Sort(blocks []int32, factors []float64) {
	r.keyed = r.keyed[:0]
	for i, x := range blocks {
		k := bucket.Keyed{Key: r.Place(x, factors[i]).Key, Tie: uint64(i), ID: x}
		if !r.never(x) {
			k.Tie = uint64(r.blocks[x].last-r.first)<<32 | uint64(x)
		}
		r.keyed = append(r.keyed, k)
	}
	bucket.Sort(r.keyed)
	for i := range r.keyed {
		blocks[i] = r.keyed[i].ID
	}
}
