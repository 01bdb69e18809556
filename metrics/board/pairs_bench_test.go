package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// likeMisses makes the misses of policies by cell and request, as sorted cells of traces with some
// requests and capacities. Policies differ by a factor that grows with the capacity, and by noise in
// each request. Some policies are almost equal.
func likeMisses(rng *rand.Rand, policies, traces, capacities, requests int) (amounts [][][]float64, cells []sides) {
	amounts = make([][][]float64, policies)
	factors, noises := make([]float64, policies), make([]float64, policies)
	for i := range policies {
		factors[i], noises[i] = 0.75+0.6*rng.Float64(), 0.01*math.Exp(2*rng.Float64())
		if i%3 == 2 {
			factors[i] = factors[i-1] * (1 + 0.002*rng.NormFloat64())
		}
	}
	for trace := range traces {
		sizes := make([]float64, requests)
		for r := range sizes {
			sizes[r] = 20_000 * math.Exp(0.4*rng.NormFloat64())
		}
		for c := range capacities {
			for i := range amounts {
				factor := math.Pow(factors[i], 0.7+0.2*float64(c)+0.3*rng.Float64()) / float64(1+c)
				cell := make([]float64, requests)
				for r := range cell {
					cell[r] = math.Round(sizes[r] * factor * math.Exp(noises[i]*rng.NormFloat64()))
				}
				amounts[i] = append(amounts[i], cell)
			}
			cells = append(cells, sides{trace: fmt.Sprintf("%05d", trace), a: amounts[0][len(cells)]})
		}
	}
	return amounts, cells
}

// BenchmarkPairs measures the tests of all pairs of 27 policies, per row.
func BenchmarkPairs(b *testing.B) {
	const policies, capacities = 27, 5
	for _, size := range []struct{ traces, requests int }{{8, 60}, {64, 60}, {30, 8}} {
		amounts, cells := likeMisses(rand.New(rand.NewPCG(1, 2)), policies, size.traces, capacities, size.requests)
		rows := policies * capacities * size.traces * size.requests
		for of, name := range []string{logRatio: "ratio", difference: "difference"} {
			b.Run(fmt.Sprintf("%s/%dx%d", name, size.traces, size.requests), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					newSwaps(0, cells).ps(amounts, allPairs(policies), statistic(of))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
			})
		}
	}
}
