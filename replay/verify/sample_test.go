package verify

import (
	"slices"
	"testing"
)

func TestSample(t *testing.T) {
	a, again, other := sample(100, 10, 1), sample(100, 10, 1), sample(100, 10, 2)
	if !slices.Equal(a, again) || slices.Equal(a, other) {
		t.Errorf("seed 1: %v and %v; seed 2: %v", a, again, other)
	}
	if len(a) != 10 || !slices.IsSorted(a) || len(slices.Compact(slices.Clone(a))) != 10 || a[9] >= 100 {
		t.Errorf("sample %v", a)
	}
	for _, c := range []struct{ n, k, want int }{{100, 0, DefaultSample}, {100, All, 100}, {7, 20, 7}, {0, 5, 0}} {
		if got := len(sample(c.n, c.k, 0)); got != c.want {
			t.Errorf("%d of %d: drew %d, expected %d", c.k, c.n, got, c.want)
		}
	}
}

// TestSampleIsFair: over 4000 seeds each of 8 rows is drawn in half the samples of 4,
// to within six standard deviations (√(4000/4) = 32).
func TestSampleIsFair(t *testing.T) {
	drawn := make([]int, 8)
	for seed := range uint64(4000) {
		for _, i := range sample(8, 4, seed) {
			drawn[i]++
		}
	}
	for i, n := range drawn {
		if n < 2000-6*32 || n > 2000+6*32 {
			t.Errorf("row %d is in %d of 4000 samples, expected about 2000", i, n)
		}
	}
}
