package ellm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// waiting is the number of waiting requests of equal length: vLLM's largest batch in the paper.
const waiting = 512

// gpuOf returns an A100 with 80 GB, of which nine tenths hold weights, KV and M_o.
func (b *bench) gpuOf(flops float64) gpu {
	card := b.machine.GPU
	return gpu{flops: flops, bandwidth: float64(card.MemoryBandwidth.Value), memory: 0.9 * float64(card.Memory.Value),
		weights: b.model.GPUBytes(1)}
}

// optimiser holds Eq. 1: the best batch and share.
func (b *bench) optimiser() {
	d, m, g := b.Section("optimiser"), b.shape, b.gpuOf(a100)
	queue, first := slices.Repeat([]float64{length}, waiting), equal(1, length)
	literal, _ := m.optimum(g, queue, slo, false)
	corrected, _ := m.optimum(g, queue, slo, true)
	d.Set("T of one request", 1e3*m.latency(g, first, 0, false))
	d.Set("largest batch", float64(literal.batch))

	// The general optimiser, whose last digits vary.
	start := operating{batch: 30, share: 0.4}
	rounded := func(v float64) float64 { return math.Round(v*100) / 100 }
	found := reproduce.Must(m.relaxed(g, length, slo, waiting, start, false))
	real := reproduce.Must(m.relaxed(g, length, slo, waiting, start, true))
	larger := math.Max(literal.share, found.share)
	d.Holds("literal share", rounded(100*larger), larger < 1e-3)
	d.Holds("corrected share", rounded(100*real.share), math.Abs(real.share-corrected.share) < 1e-3)
	d.Holds("corrected rate", rounded(real.rate), math.Abs(real.rate/corrected.rate-1) < 0.01)

	p, o := b.decode(waiting)
	o.Kernels = kernel.None // the equations are a roofline
	planned := b.Plan(p, "ellm", "", plan.Options{Options: o, LayerMap: "nearest", MaxBatch: waiting, SLO: slo})
	near := math.Abs(float64(planned.Batch-corrected.batch)) < 0.05*float64(corrected.batch)
	d.Holds("planned batch", float64(planned.Batch), near, reproduce.Row{"search": corrected.batch})
	d.Set("planned share", chosen(planned.Schedule).Uncached)

	// The loss if the choice is made with FLOP/s that differ from the GPU's.
	for line, factor := range map[string]float64{"FLOP/s too high": 1.2, "FLOP/s too low": 0.8} {
		wrong, _ := m.optimum(b.gpuOf(factor*a100), queue, slo, true)
		t := m.latency(g, equal(wrong.batch, length), wrong.share, true)
		d.Set(line, 100*(1-float64(wrong.batch)/t/corrected.rate))
	}

	one, weights := m.latency(g, first, uncached, false), 24*m.hidden*m.hidden*m.layers*length
	d.Let("corrected share", 100*corrected.share)
	d.Let("one request", 1e3*one)
	d.Let("requests", slo/one)
	d.Let("TFLOP", weights/1e12)
	d.Let("ms", 1e3*weights/a100)
}

// operating is a choice of Eq. 1: the number of running requests and the uncached share of their
// tokens.
type operating struct {
	batch int
	share float64
	rate  float64 // tokens/s
}

// optimum solves Eq. 1 over first-come-first-served batches: the first b of the waiting lengths, b
// = 1 … len(lengths), and r between 0 and 1. It requires T ≤ slo and memory for weights, cached KV
// and M_o = 40·h·b·s·r. For each b the best r is known, so the search is exact. Among equals it
// takes the larger batch. ok is false if nothing is feasible.
func (m shape) optimum(g gpu, lengths []float64, slo float64, corrected bool) (best operating, ok bool) {
	var b batch
	for _, s := range lengths {
		b = b.and(s)
		r, fits := m.leastShare(g, b)
		if !fits {
			break
		}
		if corrected {
			r = max(r, m.balanced(g, b))
		}
		t := m.latency(g, b, r, corrected)
		if t > slo {
			continue
		}
		if rate := b.requests / t; !ok || rate >= best.rate*(1-1e-12) {
			best, ok = operating{int(b.requests), r, rate}, true
		}
	}
	return best, ok
}

// balanced returns the r at which reading takes as long as arithmetic. Reading falls with r and
// arithmetic rises, so this r is the fastest. It is 0 if arithmetic takes longer for every r.
func (m shape) balanced(g gpu, b batch) float64 {
	arithmetic := g
	arithmetic.bandwidth = 0
	low, high := 0., 1.
	for range 60 {
		r := (low + high) / 2
		if m.latency(arithmetic, b, r, true) < (g.weights+m.cached(b, r))/g.bandwidth {
			low = r
		} else {
			high = r
		}
	}
	return low
}

// leastShare returns the least r with which a batch fits.
func (m shape) leastShare(g gpu, b batch) (r float64, fits bool) {
	all := m.cached(b, 0)
	excess := g.weights + all - g.memory
	if excess <= 0 {
		return 0, true
	}
	r = excess / (all * (1 - 10/m.layers)) // r saves its KV and costs 40·h·b·s of M_o
	return r, r <= 1
}

// relaxed minimises the paper's objective T/b over real b and r from a start, as its solver does.
// It uses gonum's Nelder–Mead with the constraints as penalties. All requests have s tokens.
func (m shape) relaxed(g gpu, s, slo float64, most int, from operating, corrected bool) (operating, error) {
	one := equal(1, s)
	objective := func(x []float64) float64 {
		b, r := x[0]*float64(most), x[1]
		t := b * m.latency(gpu{flops: g.flops}, one, min(1, max(0, r)), corrected)
		if corrected {
			t = math.Max(t, (g.weights+b*m.cached(one, r))/g.bandwidth)
		}
		beyond := func(v float64) float64 { return math.Max(0, v) }
		memory := g.weights + b*m.cached(one, r) + 40*m.hidden*b*s*r
		penalty := beyond(t/slo-1) + beyond(memory/g.memory-1) +
			beyond(-r) + beyond(r-1) + beyond(1-b) + beyond(b/float64(most)-1)
		return t/b + penalty
	}
	start := []float64{float64(from.batch) / float64(most), from.share}
	result, err := optimize.Minimize(optimize.Problem{Func: objective}, start, nil, &optimize.NelderMead{})
	if err != nil {
		return operating{}, err
	}
	b, r := result.X[0]*float64(most), result.X[1]
	return operating{int(math.Round(b)), r, 1 / objective([]float64{b / float64(most), r})}, nil
}
