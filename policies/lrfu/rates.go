package lrfu

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/bucket"
)

// Rates are the decayed demand rates of a stream's blocks. The rate of a block at step t is Σ
// γ^(t-s) over the steps s ≤ t that demanded it. Package nearlrfu uses them too.
type Rates struct {
	blocks  []rate
	power   []float64      // γ^k
	stay    []float64      // Σ γ^i for i < n: the addend of a stay of n steps
	scale   []scale        // γ^-k
	first   int32          // first step of the stream
	updates int32          // updates per step
	bits    int            // leading bits of a bucket
	buckets []int32        // of the blocks that leave the demand
	values  []float64      // their rates
	keyed   []bucket.Keyed // blocks that are sorted
	front   bucket.Front   // those of these blocks that are below the queue
	offered int            // blocks of the step that were queued after front
}

// rate is a block's state. value is its rate at step last, the last step that demanded it before
// the current stay. The current stay began at step entered.
type rate struct {
	value         float64
	last, entered int32
}

// scale is a number mantissa·2^exponent with 1 ≤ mantissa < 2.
type scale struct {
	mantissa float64
	exponent int32
}

// Place is the position of a block outside the demand: a bucket, and a key within it.
type Place struct {
	Bucket int32
	Key    uint64
}

// Reset forgets all rates. Places may raise rates by up to 2^headroom. Reset returns the number of
// buckets that they need.
//
// Every product is rounded by a conversion before a sum, so that no machine fuses the two. The bits
// are the same everywhere.
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

// maxBits bounds the leading bits of a bucket, for buckets of a few blocks that cost little to
// sort.
const maxBits = 7

func (s scale) over(gamma float64) scale {
	for s.mantissa /= gamma; s.mantissa >= 2; s.exponent++ {
		s.mantissa /= 2
	}
	return s
}

// step returns the step of an update.
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

// leave ends the stays of blocks and returns their buckets. Step t is the first that does not
// demand them. A block that step t demands and does not keep (Step.Pass) leaves at t+1. Step t
// counts, and the next step that demands the block begins a stay.
func (r *Rates) leave(blocks []int32, t int32) (buckets []int32) {
	r.buckets = slices.Grow(r.buckets[:0], len(blocks))[:len(blocks)]
	buckets = r.buckets
	if len(blocks) == 0 {
		return buckets // the first step has no step before it
	}
	s := r.scale[t-1-r.first]
	zero, shift := r.zero(s), (52-r.bits)&63
	for i, v := range r.settle(blocks, t) {
		buckets[i] = zero + int32(math.Float64bits(v*s.mantissa)>>shift)
	}
	return buckets
}

// settle adds to the rates of blocks the gains of stays that ended before step t, and returns the
// rates. Two short loops fit into the registers and are faster than one.
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

// zero returns the addend that turns a number's leading bits (sign, exponent, fraction) into the
// bucket of the number scaled by s's exponent.
func (r *Rates) zero(s scale) int32 { return 1 - (1023-s.exponent)<<r.bits }

// Update applies a step to the rates and to the queue of the outside set. It does not queue the
// blocks that PopFront returns first. With forget, a block that is fetched again starts without its
// old rate.
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

// PopFront handles the blocks of the latest step that Update did not queue, because they have the
// lowest rates outside the demand. It appends them if they are among the n lowest. Otherwise it
// queues them. If it appends any, they are fewer than n, and the queue is not empty.
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

// Place returns the position of x's rate, raised by a factor ≥ 1. Places order as
// value·γ^-last·factor does, and as ln value - last·ln γ + ln factor. x must be outside the demand.
func (r *Rates) Place(x int32, factor float64) Place {
	b := &r.blocks[x]
	if b.value == 0 {
		return Place{}
	}
	s := r.scale[b.last-r.first]
	u := math.Float64bits(b.value * s.mantissa * factor)
	return Place{Bucket: r.zero(s) + int32(u>>(52-r.bits)), Key: u & (1<<52 - 1)}
}

// Sort puts blocks whose places are in one bucket in order: lowest key first, then least recently
// used, then lowest index. Blocks of rate 0 keep their order. factors is parallel to blocks and
// raises their rates.
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
