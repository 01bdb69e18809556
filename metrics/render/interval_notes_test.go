package render

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// TestResamplesWithoutMisses: in trace a OPT misses in one of five requests, which a third of the
// resamples lack (0.8⁵ = 0.33). There lru misses everywhere and has no upper end. p misses nothing
// there either, so it has no interval. In b nothing is unusual, and pooled figures do not become
// those of b alone.
func TestResamplesWithoutMisses(t *testing.T) {
	rows := append(rowstest.ByRequest("opt", []int64{10, 0, 0, 0, 0}), rowstest.ByRequest("lru", []int64{90, 50, 50, 50, 50})...)
	rows = append(rows, rowstest.ByRequest("p", []int64{30, 0, 0, 0, 0})...)
	for _, r := range append(append(rowstest.ByRequest("opt", []int64{9, 9, 9, 9, 9}), rowstest.ByRequest("lru", []int64{18, 18, 18, 18, 18})...), rowstest.ByRequest("p", []int64{12, 12, 12, 12, 12})...) {
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
	// With two traces of five the tail is 0.5 % (t of 8 degrees is 2.306). The first request is drawn
	// five times in 0.03 % of the resamples, four times in 0.6 %: √((4 × 90 + 50) ÷ (4 × 10) × 2).
	if x := lru.Pooled.XOpt; !x.Unbounded() || math.Abs(*x.Low-math.Sqrt(20.5)) > 1e-3 || ratioUnit.interval(x) != "[5, ∞)" {
		t.Errorf("lru: %s", ratioUnit.interval(x))
	}
	if x := lru.Traces[1].XOpt; x.Low == nil || *x.Low != 2 || *x.High != 2 {
		t.Errorf("lru on b: %+v", x)
	}
	for _, want := range []string{"∞: the interval has no upper end", "No interval: in more than 2.5 % of the resamples"} {
		if !strings.Contains(strings.Join(b.Notes, "\n"), want) {
			t.Errorf("no note %q in %q", want, b.Notes)
		}
	}
	renderAll(t, b)
}
