package lrfu

import (
	"math"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/sorted"
)

// Rates are the decayed demand rates of a stream's blocks: the rate of a block at step
// t is Σ γ^(t-s) over the steps s ≤ t that demanded it. Package nearlrfu uses them too.
type Rates struct {
	blocks []rate
	power  []float64 // γ^k
	stay   []float64 // Σ γ^i for i < n: what a stay of n steps adds
	scale  []scale   // γ^-k
	first  int32     // first step of the stream
	bits   int       // leading bits of a bucket
	places []sorted.Place
}

// rate is a block's state: value is its rate at step last, the last that demanded it
// before the current stay.
type rate struct {
	value float64
	last  int32
	where int32 // in the demand: step at which the stay began; in the outside set: slot
}

// scale is a number mantissa·2^exponent with 1 ≤ mantissa < 2.
type scale struct {
	mantissa float64
	exponent int32
}

// Reset forgets all rates. Places will be asked for rates that are raised by up to
// 2^headroom; it returns the number of buckets that they need.
//
// Every product that is added to is rounded first, by a conversion, so that no machine
// fuses the two: the same bits everywhere.
func (r *Rates) Reset(sc *policies.Scope, gamma float64, headroom int) (buckets int) {
	r.first = int32(-sc.Windows)
	r.blocks = policies.Fill(r.blocks, sc.Blocks, rate{last: r.first - 1})
	n := sc.Steps + 1
	r.power, r.stay = policies.Fill(r.power, n, 1), policies.Fill(r.stay, n, 0)
	r.scale = policies.Fill(r.scale, n, scale{1, 0})
	for i := 1; i < n; i++ {
		r.power[i] = r.power[i-1] * gamma
		r.stay[i] = float64(r.stay[i-1]*gamma) + 1
		r.scale[i] = r.scale[i-1].over(gamma)
	}
	octaves := int(r.scale[n-1].exponent) + math.Ilogb(1/(1-gamma)) + headroom + 3
	for r.bits = 8; r.bits > 2 && octaves<<r.bits > 1<<14; {
		r.bits--
	}
	return 1 + octaves<<r.bits
}

func (s scale) over(gamma float64) scale {
	for s.mantissa /= gamma; s.mantissa >= 2; s.exponent++ {
		s.mantissa /= 2
	}
	return s
}

// Forget makes x's rate 0.
func (r *Rates) Forget(x int32) { r.blocks[x].value = 0 }

// Enter begins a stay of x in the demand at step t.
func (r *Rates) Enter(x, t int32) { r.blocks[x].where = t }

// Leave ends the stays of blocks: step t is the first that does not demand them. What
// step t demands and does not keep (Step.Pass) leaves at t+1: step t counts, and a step
// that demands it again begins a stay.
func (r *Rates) Leave(blocks []int32, t int32) {
	for _, x := range blocks {
		b := &r.blocks[x]
		b.value = float64(b.value*r.power[t-1-b.last]) + r.stay[t-b.where]
		b.last = t - 1
	}
}

// Never reports whether x's rate is 0.
func (r *Rates) Never(x int32) bool { return r.blocks[x].value == 0 }

// Slot is where x is in the queue, while it is outside the demand.
func (r *Rates) Slot(x int32) int32 { return r.blocks[x].where }

// SetSlot stores where x, outside the demand, is in the queue.
func (r *Rates) SetSlot(x, slot int32) { r.blocks[x].where = slot }

// Update applies a step to the rates and to the queue of the outside set; forget drops
// the rate of what was evicted and is fetched again.
func (r *Rates) Update(q *sorted.Queue, s *policies.Step, forget bool) {
	r.Leave(s.Exit, s.T)
	r.Join(q, s.Exit)
	r.Join(q, s.Offered)
	for _, x := range s.Hit {
		q.Remove(r.Slot(x))
		r.Enter(x, s.T)
	}
	for _, x := range s.Miss {
		if forget {
			r.Forget(x)
		}
		r.Enter(x, s.T)
	}
	r.Leave(s.Pass, s.T+1)
}

// Join puts blocks, which are outside the demand, into a queue by their rates.
func (r *Rates) Join(q *sorted.Queue, blocks []int32) {
	r.places = r.places[:0]
	for _, x := range blocks {
		r.places = append(r.places, r.Place(x, 1))
	}
	for i, x := range blocks {
		r.blocks[x].where = q.Push(r.places[i], x)
	}
}

// Place is where x's rate, raised by a factor ≥ 1, belongs in a queue: places order as
// value·γ^-last·factor does, and as ln value - last·ln γ + ln factor. x is outside the
// demand.
func (r *Rates) Place(x int32, factor float64) sorted.Place {
	b := &r.blocks[x]
	if b.value == 0 {
		return sorted.Place{}
	}
	s := r.scale[b.last-r.first]
	u := math.Float64bits(b.value * s.mantissa * factor)
	octave := int(u>>52) - 1023 + int(s.exponent)
	fraction := u & (1<<52 - 1)
	return sorted.Place{Bucket: int32(1 + octave<<r.bits + int(fraction>>(52-r.bits))), Key: fraction << 1}
}
