package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestIntervalsNeedFiveRequests(t *testing.T) {
	for n, want := range map[int]bool{4: false, 5: true} {
		p, opt := []int64{30, 20, 44, 12, 60}, []int64{20, 10, 30, 11, 40}
		b := mustBoard(t, append(rowstest.ByRequest("p", p[:n]), rowstest.ByRequest("opt", opt[:n])...))
		x := b.Tables[0].Unranked[0].Pooled.XOpt
		if got := x.Low != nil; got != want {
			t.Errorf("%d requests: interval %v", n, got)
		}
		if want && (*x.Low >= x.Value || *x.High <= x.Value) {
			t.Errorf("interval %v–%v does not hold %v", *x.Low, *x.High, x.Value)
		}
		if want := fmt.Sprintf("they need 5 requests of each trace. Traces with fewer: a (n = %d)", n); (n < 5) != strings.Contains(strings.Join(b.Notes, " "), want) {
			t.Errorf("%d requests: notes %q", n, b.Notes)
		}
		under := strings.Join(b.Tables[0].Notes, "\n")
		if got := strings.Contains(under, "fewer than 10 requests (n = 5)"); got != want {
			t.Errorf("%d requests: under the table %q", n, under)
		}
	}
}

// TestIntervalsArePaired: if every request has the same ratio, whatever its size, all resamples
// have it too.
func TestIntervalsArePaired(t *testing.T) {
	b := mustBoard(t, append(rowstest.ByRequest("p", []int64{2, 20, 40, 60, 100}), rowstest.ByRequest("opt", []int64{1, 10, 20, 30, 50})...))
	if x := b.Tables[0].Unranked[0].Pooled.XOpt; *x.Low != 2 || *x.High != 2 {
		t.Errorf("interval %v–%v, want 2–2", *x.Low, *x.High)
	}
}

func TestSeedsAndResamples(t *testing.T) {
	rows := append(rowstest.ByRequest("p", []int64{3, 25, 41, 66, 90}), rowstest.ByRequest("opt", []int64{1, 10, 20, 30, 50})...)
	low := func(o Options) float64 {
		b, err := NewBoard(rows, o)
		fatal.If(t, err)
		return *b.Tables[0].Unranked[0].Pooled.XOpt.Low
	}
	if low(Options{}) != low(Options{Resamples: DefaultResamples}) {
		t.Error("the same seed gives another interval")
	}
	if low(Options{Resamples: 300}) == low(Options{Resamples: 300, Seed: 1}) {
		t.Error("another seed gives the same interval")
	}
}

// TestCoverage draws samples of requests whose true pooled ratio is 1.5, with log-normal sizes and
// ratios. It counts how often intervals cover the ratio: nominally 95 %. Unexpanded percentile
// intervals have the rates of the last column. Those rates are from 4000 trials. The test runs
// fewer, so its rates may be off by two in a hundred.
func TestCoverage(t *testing.T) {
	const trials, resamples, truth = 1000, 1000, 1.5
	for _, c := range []struct {
		requests    []int // by trace
		rate, plain float64
	}{
		{[]int{5}, 0.91, 0.82}, {[]int{8}, 0.93, 0.87}, {[]int{12}, 0.94, 0.90},
		{[]int{5, 5, 5, 6, 6, 8, 12}, 0.93, 0.88},
	} {
		rng := rand.New(rand.NewPCG(11, 77))
		held, plain := 0, 0
		for trial := range trials {
			series := make([]float64, resamples) // of the mean log ratio
			for _, n := range c.requests {
				p, opt := make([]int64, n), make([]int64, n)
				for i := range n {
					size := 2e5 * math.Exp(0.4*rng.NormFloat64())
					opt[i], p[i] = int64(size), int64(size*truth*math.Exp(0.2*rng.NormFloat64()-0.02))
				}
				d := newDraws(uint64(trial), "a", n, resamples)
				q := d.sums(opt)
				for b, s := range d.sums(p) {
					series[b] += math.Log(s/q[b]) / float64(len(c.requests))
				}
			}
			for _, way := range []struct {
				tail float64
				held *int
			}{{tail(c.requests), &held}, {nominalTail, &plain}} {
				if low, high := interval(series, way.tail); *low <= math.Log(truth) && math.Log(truth) <= *high {
					*way.held++
				}
			}
		}
		for what, rate := range map[string][2]float64{"intervals": {float64(held) / trials, c.rate}, "percentiles": {float64(plain) / trials, c.plain}} {
			if math.Abs(rate[0]-rate[1]) > 0.02 {
				t.Errorf("%v requests: %s hold the true ratio in %.1f %% of trials, expected %.0f %%", c.requests, what, 100*rate[0], 100*rate[1])
			}
		}
	}
}

func TestPooledIntervalsNeedEveryTrace(t *testing.T) {
	rows := append(rowstest.ByRequest("p", []int64{3, 25, 41, 66, 90}), rowstest.ByRequest("opt", []int64{1, 10, 20, 30, 50})...)
	rows = append(rows, rowstest.Row("b", "p", "1x", 3), rowstest.Row("b", "opt", "1x", 2))
	b := mustBoard(t, rows)
	if x := b.Tables[0].Unranked[0].Pooled.XOpt; x.Low != nil {
		t.Error("an interval over a trace without requests")
	}
	for _, c := range b.Cells {
		if got := c.Figures.XOpt.Low != nil; got != (c.Trace == "a") {
			t.Errorf("%s on %s: interval %v", c.Policy, c.Trace, got)
		}
	}
}

// TestNth: nth selects what sorting gives, with equal and infinite values.
func TestNth(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		values := make([]float64, 1+r.IntN(60))
		for i := range values {
			values[i] = []float64{r.NormFloat64(), float64(r.IntN(4)), math.Inf(1), math.Inf(-1)}[r.IntN(4)]
		}
		sorted := slices.Sorted(slices.Values(values))
		for n, want := range sorted {
			if got := nth(values, n); got != want {
				t.Fatalf("seed %d: element %d of %v is %v", seed, n, sorted, got)
			}
		}
	}
}
