package synthetic

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Quantiles are those of the log-logistic law, and below inverts at.
func TestLaw(t *testing.T) {
	var l law
	for _, c := range [][2]float64{{4.5, 0.7}, {0.7, 1.2}, {64, 1.5}} {
		l.set(c[0], c[1], math.Inf(1))
		if m := (l.at(quantiles/2-1) + l.at(quantiles/2)) / 2; math.Abs(m/c[0]-1) > 1e-3 {
			t.Errorf("median %v of a law with median %v", m, c[0])
		}
		for x := 0.1; x < 1000; x *= 2 {
			want := 1 / (1 + math.Pow(x/c[0], c[1]))
			if got := 1 - float64(l.under(x))/quantiles; math.Abs(got-want) > 1.0/quantiles {
				t.Errorf("median %v, shape %v: P(X > %v) = %v, expected %v", c[0], c[1], x, got, want)
			}
		}
	}
}

// setMean finds the law whose whole steps have that mean.
func TestLawMean(t *testing.T) {
	var l law
	for _, mean := range []float64{1, 1.3, 3.4, 20, 100} {
		l.setMean(mean, 1.2, longestRun)
		if got := l.meanSteps(); math.Abs(got/mean-1) > 0.01 {
			t.Errorf("mean %v, expected %v", got, mean)
		}
	}
	l.set(3, 1, math.Inf(1))
	if l.fillTicks(0); l.ticks[0] < 0 || l.ticks[quantiles/2-1] != 3*ticks || l.ticks[quantiles-1] <= 1e3*ticks {
		t.Errorf("ticks %d, %d, %d", l.ticks[0], l.ticks[quantiles/2-1], l.ticks[quantiles-1])
	}
	l.set(0.5, 1, 0.5)
	if got := l.meanSteps(); got != 1 {
		t.Errorf("times below a step take %v steps, expected 1", got)
	}
}

// meanSteps is the mean over all quantiles, one by one.
func TestMeanSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var l law
	for range 300 {
		median, shape, most := math.Exp(r.NormFloat64()*4), 0.3+3*r.Float64(), []float64{0.5, 1, 1.5, 7, longestRun, 1e6}[r.IntN(6)]
		if r.IntN(4) == 0 {
			median = float64(1 + r.IntN(8)) // quantiles of whole steps
			shape = math.Inf(1)
		}
		l.set(median, shape, most)
		sum := 0.0
		for i := range l.unit {
			sum += math.Max(1, math.Ceil(l.at(uint16(i))))
		}
		if got := l.meanSteps(); got != sum/quantiles {
			t.Fatalf("median %v, shape %v, at most %v: mean %v, expected %v", median, shape, most, got, sum/quantiles)
		}
	}
}

// A random moment meets intervals in proportion to their length. If half the times of a law are
// short and half ten times as long, 10 of 11 moments fall into long ones.
func TestLengths(t *testing.T) {
	l := law{median: 1, most: 10}
	for i := range l.unit {
		l.unit[i] = 1
		if i >= quantiles/2 {
			l.unit[i] = 10
		}
	}
	var w lengths
	w.set(&l)
	long := 0
	for _, i := range w {
		if i >= quantiles/2 {
			long++
		}
	}
	if got := float64(long) / quantiles; math.Abs(got-10.0/11) > 1e-3 {
		t.Errorf("%v of the moments fall into long intervals, expected 10/11", got)
	}
}
