package metrics

import (
	"math"
	"strings"
	"testing"
)

// TestResamplesWithoutMisses: in trace a OPT misses in one request of five, which a third of
// the resamples lack (0.8⁵ = 0.33). There lru, which misses everywhere, has no upper end, and
// of p, which misses nothing there either, nothing can be said. In b all is as usual, and
// pooled figures do not turn into those of b alone.
func TestResamplesWithoutMisses(t *testing.T) {
	rows := append(byRequest("opt", []int64{10, 0, 0, 0, 0}), byRequest("lru", []int64{90, 50, 50, 50, 50})...)
	rows = append(rows, byRequest("p", []int64{30, 0, 0, 0, 0})...)
	for _, r := range append(append(byRequest("opt", []int64{9, 9, 9, 9, 9}), byRequest("lru", []int64{18, 18, 18, 18, 18})...), byRequest("p", []int64{12, 12, 12, 12, 12})...) {
		r.Trace, r.TraceDigest = "b", "sha256:b"
		rows = append(rows, r)
	}
	b := mustBoard(t, rows)
	p, lru := b.Tables[0].Ranked[0], b.Tables[0].Ranked[1]
	if p.Policy != "p" || lru.Letters == p.Letters {
		t.Errorf("ranked %+v, %+v; p misses less in every resample", p, lru)
	}
	wantFigure(t, "p", p.Pooled.XOpt, math.Sqrt(3*12./9))
	wantFigure(t, "lru", lru.Pooled.XOpt, math.Sqrt(29*2))
	if x := p.Pooled.XOpt; x.Low != nil || x.High != nil {
		t.Errorf("p has an interval from %v", *x.Low)
	}
	// Of two traces of five the tail is 0.5 % (t of 8 degrees is 2.306). The first request is
	// drawn five times in 0.03 % of the resamples, four times in 0.6 %:
	// √((4 × 90 + 50) ÷ (4 × 10) × 2).
	if x := lru.Pooled.XOpt; !x.unbounded() || math.Abs(*x.Low-math.Sqrt(20.5)) > 1e-3 || ratioUnit.interval(x) != "[5, ∞)" {
		t.Errorf("lru: %s", ratioUnit.interval(x))
	}
	if x := lru.Traces[1].XOpt; x.Low == nil || *x.Low != 2 || *x.High != 2 {
		t.Errorf("lru on b: %+v", x)
	}
	for _, want := range []string{"∞: the requests leave the upper end open", "no interval where more than 2.5 % of the resamples"} {
		if !strings.Contains(strings.Join(b.Notes, "\n"), want) {
			t.Errorf("no note %q in %q", want, b.Notes)
		}
	}
	renderAll(t, b)
}

// TestBounds: as many values are outside at either end, undefined ones are left out while
// they are few, infinite ones count.
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
