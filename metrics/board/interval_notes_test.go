package board

import (
	"math"
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

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
