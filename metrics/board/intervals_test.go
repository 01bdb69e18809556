package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// randomCells returns cells of exact and lossy policies on some traces, with counts below a limit.
func randomCells(rng *rand.Rand, traces, capacities, most int) (cells []*cell) {
	for trace := range traces {
		w := &fixedByRequest{}
		for r := range MinRequests + rng.IntN(20) {
			w.ids = append(w.ids, fmt.Sprintf("%02d", r))
			w.tasks = append(w.tasks, fixedCounts{1, 1, 2 * int64(most)})
		}
		for _, policy := range []string{OptPolicy, LRUPolicy, "p", "lossy"} {
			for capacity := range capacities {
				size := fmt.Sprintf("%dx", 1+capacity)
				c := &cell{trace: fmt.Sprint(trace), policy: policy, capacity: size, work: w,
					sample: &result.Row{Policy: policy, Capacity: &size, Lossy: policy == "lossy"}}
				for _, t := range w.tasks {
					n := counts{misses: rng.Int64N(int64(most))}
					if c.sample.Lossy {
						n = counts{lost: rng.Int64N(int64(most))}
					}
					c.requests = append(c.requests, n)
					c.total = sum([]tally{c.total, {fixedCounts: t, misses: n.misses, lost: n.lost}})
				}
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// literalCounts returns a count of a cell in every resample.
func literalCounts(s *sampler, of countOf) []float64 {
	return newDraws(s.seed, of.cell.trace, len(of.cell.requests), s.count).sums(of.byRequest())
}

// literalFigures computes the intervals of a policy's figures from every resample, one figure after the other.
func literalFigures(g *grid, policy string, refs []CellRef) map[string]Figure {
	n := g.sampler.count
	logOpt, logLRU := make([]float64, n), make([]float64, n)
	own, opt, lru, demand := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for _, r := range refs {
		of := func(policy string) []float64 { return literalCounts(g.sampler, countOf{g.at(r, policy), false}) }
		p, o, l, d := of(policy), of(OptPolicy), of(LRUPolicy), literalCounts(g.sampler, countOf{g.first[r.Trace], true})
		for b := range n {
			logOpt[b] += math.Log(p[b] / o[b])
			logLRU[b] += math.Log(p[b] / l[b])
			own[b], opt[b], lru[b], demand[b] = own[b]+p[b], opt[b]+o[b], lru[b]+l[b], demand[b]+d[b]
		}
	}
	figures := map[string]Figure{}
	tail := tail(g.requests(refs))
	add := func(name string, of func(b int) float64) {
		low, high := literalBounds(slice.Map(slice.Indices(n), of), tail)
		figures[name] = Figure{Low: Number(low), High: Number(high), undefined: Number(low) == nil}
	}
	add("× OPT", func(b int) float64 { return math.Exp(logOpt[b] / float64(len(refs))) })
	add("× LRU", func(b int) float64 { return math.Exp(logLRU[b] / float64(len(refs))) })
	add("gap closed", func(b int) float64 { return gapClosed(own[b], opt[b], lru[b]) })
	add("hit rate", func(b int) float64 { return hitRate(own[b], demand[b]) })
	add("lost", func(b int) float64 { return lostShare(own[b], demand[b]) })
	return figures
}

// TestIntervals: intervals of figures over one cell, one trace or several are those of computing the
// figure in every resample. Counts are small or large, and some cells have no miss in some resamples.
func TestIntervals(t *testing.T) {
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 5))
		cells := randomCells(rng, 1+rng.IntN(4), 1+rng.IntN(2*mostFactors), []int{3, 40, 1e6, 1e13}[seed%4])
		s := newSampler(Options{Seed: seed, Resamples: 150 + rng.IntN(500)})
		g, err := newGrid(cells, s)
		fatal.If(t, err)
		var all []CellRef
		for _, c := range cells {
			if c.policy == OptPolicy {
				all = append(all, c.ref())
			}
		}
		pools := []*pool{g.over(all), g.over(all[:1]), g.over(all[len(all)/2:])}
		for _, own := range slice.Runs(all, func(a, b CellRef) bool { return a.Trace == b.Trace }) {
			pools = append(pools, g.over(own))
		}
		exact, lossy := make([]*Figures, len(pools)), make([]*Figures, len(pools))
		for i, p := range pools {
			exact[i], lossy[i] = p.measure("p"), p.measureLossy("lossy")
			p.measure(OptPolicy)
		}
		s.makeIntervals()
		for i, p := range pools {
			want := literalFigures(g, "p", p.refs)
			for name, f := range map[string]*Figure{"× OPT": exact[i].XOpt, "× LRU": exact[i].XLRU, "gap closed": exact[i].GapClosed, "hit rate": exact[i].HitRate} {
				if f == nil {
					continue // the real counts have no figure
				}
				if w := want[name]; !reflect.DeepEqual(*f, Figure{f.Value, w.Low, w.High, w.undefined}) {
					t.Errorf("seed %d, pool %d of %d cells: %s from %v to %v, expected %v to %v", seed, i, len(p.refs), name, optional.Or(f.Low, math.NaN()), optional.Or(f.High, math.NaN()), optional.Or(w.Low, math.NaN()), optional.Or(w.High, math.NaN()))
				}
			}
			w := literalFigures(g, "lossy", p.refs)["lost"]
			if f := lossy[i].Recall; *f.Low != *Number(1 - *w.High) || *f.High != *Number(1 - *w.Low) {
				t.Errorf("seed %d, pool %d: recall from %v to %v, lost %v to %v", seed, i, *f.Low, *f.High, *w.Low, *w.High)
			}
		}
	}
}
