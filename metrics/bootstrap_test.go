package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// byRequest is a cell of trace a with one row per request.
func byRequest(policy string, misses []int64) []Row {
	var rows []Row
	for i, m := range misses {
		rows = append(rows, forRequest(row("a", policy, "1x", m), fmt.Sprintf("r%03d", i)))
	}
	return rows
}

func TestIntervalsNeedFiveRequests(t *testing.T) {
	for n, want := range map[int]bool{4: false, 5: true} {
		p, opt := []int64{30, 20, 44, 12, 60}, []int64{20, 10, 30, 11, 40}
		b := mustBoard(t, append(byRequest("p", p[:n]), byRequest("opt", opt[:n])...))
		x := b.Tables[0].Ranked[0].Pooled.XOpt
		if got := x.Low != nil; got != want {
			t.Errorf("%d requests: interval %v", n, got)
		}
		if want && (*x.Low >= x.Value || *x.High <= x.Value) {
			t.Errorf("interval %v–%v does not hold %v", *x.Low, *x.High, x.Value)
		}
		if !strings.Contains(strings.Join(b.Notes, " "), fmt.Sprintf("(n = %d)", n)) {
			t.Errorf("%d requests: notes %q", n, b.Notes)
		}
	}
}

// TestIntervalsArePaired: where every request has the same ratio, however large it is,
// all resamples have it too.
func TestIntervalsArePaired(t *testing.T) {
	b := mustBoard(t, append(byRequest("p", []int64{2, 20, 40, 60, 100}), byRequest("opt", []int64{1, 10, 20, 30, 50})...))
	if x := b.Tables[0].Ranked[0].Pooled.XOpt; *x.Low != 2 || *x.High != 2 {
		t.Errorf("interval %v–%v, want 2–2", *x.Low, *x.High)
	}
}

func TestSeedsAndResamples(t *testing.T) {
	rows := append(byRequest("p", []int64{3, 25, 41, 66, 90}), byRequest("opt", []int64{1, 10, 20, 30, 50})...)
	low := func(o Options) float64 {
		b, err := NewBoard(rows, o)
		if err != nil {
			t.Fatal(err)
		}
		return *b.Tables[0].Ranked[0].Pooled.XOpt.Low
	}
	if low(Options{}) != low(Options{Resamples: DefaultResamples}) {
		t.Error("the same seed gives another interval")
	}
	if low(Options{Resamples: 300}) == low(Options{Resamples: 300, Seed: 1}) {
		t.Error("another seed gives the same interval")
	}
}

// TestCoverage draws 200 samples of 40 requests whose true pooled ratio is 1.5 and
// counts how often the interval holds it: nominally 95 %. The percentile bootstrap is
// a little narrow at this size; the bounds allow for that and for the draw.
func TestCoverage(t *testing.T) {
	const trials, requests, truth = 200, 40, 1.5
	rng := rand.New(rand.NewPCG(3, 4))
	held := 0
	for range trials {
		var p, opt []int64
		for range requests {
			size := 20 * math.Exp(0.4*rng.NormFloat64())
			opt = append(opt, int64(math.Round(min(size, 60))))
			p = append(p, int64(math.Round(min(min(size, 60)*(truth+0.1*rng.NormFloat64()), 100))))
		}
		b, err := NewBoard(append(byRequest("p", p), byRequest("opt", opt)...), Options{Resamples: 400})
		if err != nil {
			t.Fatal(err)
		}
		if x := b.Tables[0].Ranked[0].Pooled.XOpt; *x.Low <= truth && truth <= *x.High {
			held++
		}
	}
	if rate := float64(held) / trials; rate < 0.88 || rate > 0.99 {
		t.Errorf("intervals hold the true ratio in %.1f %% of trials", 100*rate)
	}
}

// TestNear marks a policy that requests cannot tell from the one above it.
func TestNear(t *testing.T) {
	rows := byRequest("opt", []int64{10, 20, 30, 40, 50})
	rows = append(rows, byRequest("best", []int64{15, 30, 45, 60, 75})...)
	rows = append(rows, byRequest("close", []int64{20, 25, 51, 50, 80})...)
	rows = append(rows, byRequest("worse", []int64{30, 60, 80, 90, 99})...)
	ranked := mustBoard(t, rows).Tables[0].Ranked
	for i, want := range []string{"best false", "close true", "worse false"} {
		if got := fmt.Sprint(ranked[i].Policy, " ", ranked[i].Near); got != want {
			t.Errorf("line %d: %s, want %s", i+1, got, want)
		}
	}
}

func TestPooledIntervalsNeedEveryTrace(t *testing.T) {
	rows := append(byRequest("p", []int64{3, 25, 41, 66, 90}), byRequest("opt", []int64{1, 10, 20, 30, 50})...)
	rows = append(rows, row("b", "p", "1x", 3), row("b", "opt", "1x", 2))
	b := mustBoard(t, rows)
	if x := b.Tables[0].Ranked[0].Pooled.XOpt; x.Low != nil {
		t.Error("an interval over a trace without requests")
	}
	for _, c := range b.Cells {
		if got := c.Figures.XOpt.Low != nil; got != (c.Trace == "a") {
			t.Errorf("%s on %s: interval %v", c.Policy, c.Trace, got)
		}
	}
}
