package pipeline

import "testing"

// Percentiles by hand, nearest rank: of n steps the ⌈share × n⌉-th by time, equals in
// the order of the steps.
func TestDistribution(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		times         []float64
		p50, p95, p99 float64
		median        int
	}{
		{[]float64{7}, 7, 7, 7, 0},
		{[]float64{4, 2, 3, 1}, 2, 4, 4, 1},
		{[]float64{5, 1, 3, 3, 3}, 3, 5, 5, 3}, // of 1 3 3 3 5 the third, the second of the equals
		{[]float64{2, 2, 2}, 2, 2, 2, 1},
		{hundred, 50, 95, 99, 50},
	} {
		var r Result
		r.distribution(c.times)
		if r.P50 != c.p50 || r.P95 != c.p95 || r.P99 != c.p99 || r.median != c.median {
			t.Errorf("%v: p50 %g at step %d, p95 %g, p99 %g; expected %g at %d, %g, %g", c.times, r.P50, r.median, r.P95, r.P99, c.p50, c.median, c.p95, c.p99)
		}
	}
}
