package ellm

import (
	"math"

	"gonum.org/v1/gonum/optimize"
)

// operating is a choice of Eq. 1: how many requests run, and which share of their tokens
// stays uncached.
type operating struct {
	batch int
	share float64
	rate  float64 // tokens/s
}

// optimum solves Eq. 1 over first-come-first-served batches: the first b of the waiting
// lengths, b = 1 … len(lengths), and r between 0 and 1, with T ≤ slo and memory for
// weights, cached KV and M_o = 40·h·b·s·r. For each b the best r is known, so that the
// search is exact; of equals it takes the larger batch. ok is false where nothing is feasible.
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

// balanced is the r at which reading takes as long as arithmetic: the first falls with r
// and the second rises, so that it is the fastest of all; 0 where arithmetic takes longer
// at once.
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

// leastShare is the least r with which a batch fits.
func (m shape) leastShare(g gpu, b batch) (r float64, fits bool) {
	all := m.cached(b, 0)
	over := g.weights + all - g.memory
	if over <= 0 {
		return 0, true
	}
	r = over / (all * (1 - 10/m.layers)) // r saves its KV and costs 40·h·b·s of M_o
	return r, r <= 1
}

// relaxed minimises the paper's objective T/b over real b and r from a start, as its
// solver does, with gonum's Nelder–Mead and the constraints as penalties. The requests all
// have s tokens.
func (m shape) relaxed(g gpu, s, slo float64, most int, from operating, corrected bool) (operating, error) {
	one := equal(1, s)
	objective := func(x []float64) float64 {
		b, r := x[0]*float64(most), x[1]
		t := b * m.latency(gpu{flops: g.flops}, one, min(1, max(0, r)), corrected)
		if corrected {
			t = math.Max(t, (g.weights+b*m.cached(one, r))/g.bandwidth)
		}
		beyond := func(v float64) float64 { return math.Max(0, v) }
		penalty := beyond(t/slo-1) + beyond((g.weights+b*m.cached(one, r)+40*m.hidden*b*s*r)/g.memory-1) + beyond(-r) + beyond(r-1) + beyond(1-b) + beyond(b/float64(most)-1)
		return t/b + penalty
	}
	result, err := optimize.Minimize(optimize.Problem{Func: objective}, []float64{float64(from.batch) / float64(most), from.share}, nil, &optimize.NelderMead{})
	if err != nil {
		return operating{}, err
	}
	b, r := result.X[0]*float64(most), result.X[1]
	return operating{int(math.Round(b)), r, 1 / objective([]float64{b / float64(most), r})}, nil
}
