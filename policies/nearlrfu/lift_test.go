package nearlrfu

import (
	"math"
	"testing"
)

// The factors are e^(w·near), to twelve digits.
func TestLifts(t *testing.T) {
	var l lifts
	for _, w := range []float64{0.25, 2, maxW} {
		for _, m := range []int{1, 2, 512, 4096} {
			l.set(w, m)
			for i, got := range l.factor {
				want := math.Exp(w * (1 - float64(i+1)/float64(m+1)))
				if math.Abs(got/want-1) > 1e-12 {
					t.Fatalf("w = %g, candidate %d of %d: factor %v, want %v", w, i+1, m, got, want)
				}
			}
		}
	}
}

// The factors have these exact bits on every machine.
func TestLiftsToTheLastBit(t *testing.T) {
	var l lifts
	for _, c := range []struct {
		w    float64
		m, i int
		bits uint64
	}{
		{2, 512, 0, 0x401d70f3c780377d}, {2, 512, 511, 0x3ff00ffffeab5522}, {maxW, 100, 7, 0x4197ba0d1407c37c}, {0.3, 3, 1, 0x3ff296df80be4124},
	} {
		if l.set(c.w, c.m); math.Float64bits(l.factor[c.i]) != c.bits {
			t.Errorf("w = %g, candidate %d of %d: bits %#x, want %#x", c.w, c.i+1, c.m, math.Float64bits(l.factor[c.i]), c.bits)
		}
	}
}
