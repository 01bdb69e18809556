package ellm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// past returns the lines past their gates, with a library that change may modify.
func past(t *testing.T, change func(*hardware.Library)) []string {
	t.Helper()
	s, err := reproduce.Begin(t.Context(), Paper(), reproduce.Inputs{Short: true})
	fatal.If(t, err)
	defer s.Close()
	if change != nil {
		change(s.Library)
	}
	all, err := s.Run()
	fatal.If(t, err)
	return reproduce.Past(all)
}

func TestReproduced(t *testing.T) {
	if past := past(t, nil); past != nil {
		t.Errorf("past their gates: %q", past)
	}
}

// A model of another width no longer gives the paper's figures.
func TestGatesBite(t *testing.T) {
	past := past(t, func(lib *hardware.Library) {
		m, err := lib.Model("llama-2-13b")
		fatal.If(t, err)
		m.Vocabulary.Value++
	})
	if len(past) == 0 {
		t.Error("one more word in the vocabulary is not noticed")
	}
}

var llama = shape{40, 5120, 32000}

// The search finds the same optimum as a trial of all batches and a grid of shares. The queues have
// unequal lengths, and the GPUs are limited by compute, bandwidth or memory.
func TestOptimumIsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for range 60 {
		queue := make([]float64, 1+r.IntN(60))
		for i := range queue {
			queue[i] = float64(50 + r.IntN(2000))
		}
		g := gpu{flops: a100 * (1 + 40*r.Float64()), bandwidth: 2e12 * (0.2 + r.Float64()), memory: 26e9 + 20e9*r.Float64(), weights: 26e9}
		slo := 0.02 + 0.2*r.Float64()
		best, ok := llama.optimum(g, queue, slo, true)
		var waits batch
		for _, s := range queue {
			waits = waits.and(s)
			for i := range 201 {
				share := float64(i) / 200
				held := g.weights + llama.cached(waits, share) + llama.overhead(waits, share, 3, 2)
				T := llama.latency(g, waits, share, true)
				if held > g.memory || T > slo {
					continue
				}
				if !ok || waits.requests/T > best.rate*(1+1e-9) {
					t.Fatalf("batch %g, share %g: %g tokens/s, the search found %+v", waits.requests, share, waits.requests/T, best)
				}
			}
		}
	}
}

// With much compute and little memory, recomputing pays.
func TestRecomputingPays(t *testing.T) {
	g := gpu{flops: 1e18, bandwidth: 2e12, memory: 30e9, weights: 26e9}
	best, ok := llama.optimum(g, slices.Repeat([]float64{1000}, 100), 1, true)
	if !ok || best.share < 0.1 {
		t.Errorf("the best is %+v, expected some uncached", best)
	}
	found, err := llama.relaxed(g, 1000, 1, 100, operating{batch: 5, share: 0.5}, true)
	if err != nil || math.Abs(found.rate/best.rate-1) > 0.1 {
		t.Errorf("gonum finds %+v (%v), the search %+v", found, err, best)
	}
}

// BenchmarkOptimum times the search, and gonum's solution of the relaxed problem. The paper solves
// it in less than 21 ms (section 6.7).
func BenchmarkOptimum(b *testing.B) {
	g := gpu{flops: a100, bandwidth: 2e12, memory: 72e9, weights: 26e9}
	queue := slices.Repeat([]float64{length}, 512)
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			llama.optimum(g, queue, slo, true)
		}
	})
	b.Run("gonum", func(b *testing.B) {
		for b.Loop() {
			if _, err := llama.relaxed(g, length, slo, waiting, operating{batch: 30, share: 0.4}, true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
