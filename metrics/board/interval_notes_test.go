package board

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBounds: the same number of values is outside at either end. Undefined values are left out
// while they are few, and infinite ones count.
func TestBounds(t *testing.T) {
	series := make([]float64, 200)
	for i := range series {
		series[i] = float64(i)
	}
	check := func(what string, wantLow, wantHigh float64) {
		t.Helper()
		if low, high := bounds(series, nominalTail); !same(low, wantLow) || !same(high, wantHigh) {
			t.Errorf("%s: %v to %v, want %v to %v", what, low, high, wantLow, wantHigh)
		}
	}
	check("200 values", 5, 194)
	for i := range 5 {
		series[i] = math.NaN()
	}
	check("5 undefined", 9, 195) // ⌊0.025 × 195⌋ = 4 outside
	series[199], series[198], series[197], series[196], series[195] = math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
	check("5 infinite", 9, math.Inf(1))
	series[5] = math.NaN()
	check("6 undefined", math.NaN(), math.NaN())
}

// literalBounds is bounds by sorting.
func literalBounds(series []float64, tail float64) (low, high float64) {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(series)), math.IsNaN)
	if lost := len(series) - len(sorted); len(sorted) == 0 || float64(lost) > mostUndefined*float64(len(series)) {
		return math.NaN(), math.NaN()
	}
	out := int(tail * float64(len(sorted)))
	return sorted[out], sorted[len(sorted)-1-out]
}

// FuzzIntervalBounds compares bounds with those of sorting. Series have equal, infinite and undefined values, and
// some first values that do not resemble the others.
func FuzzIntervalBounds(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint16(40*seed), uint8(seed), 0.01*float64(seed%7))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, kind uint8, tail float64) {
		if !(tail >= 0 && tail < 0.5) {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 8))
		series := make([]float64, n%4000)
		for i := range series {
			x := rng.NormFloat64()
			switch {
			case kind&1 > 0 && rng.IntN(60) == 0:
				x = math.NaN()
			case kind&2 > 0 && rng.IntN(30) == 0:
				x = math.Inf(rng.IntN(2) - 1)
			case kind&4 > 0:
				x = float64(rng.IntN(3))
			case kind&8 > 0:
				x += float64(i) / 100
			}
			series[i] = x
		}
		low, high := bounds(series, tail)
		if wantLow, wantHigh := literalBounds(series, tail); !same(low, wantLow) || !same(high, wantHigh) {
			t.Errorf("%v to %v, expected %v to %v", low, high, wantLow, wantHigh)
		}
	})
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
