package metrics

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// lossyRow is a row of a lossy policy: of 100 demanded blocks some are lost; of each step's
// attention the list covers 80 %.
func lossyRow(trace, policy, capacity string, lost int64, kept float64) Row {
	r := row(trace, "lossy", capacity, lost)
	r.Policy, r.KeptMass, r.CoveredMass = policy, &kept, ptr(0.8)
	r.ResidentMean, r.ResidentPeak = 9.5, 10
	return r
}

func TestLossyByHand(t *testing.T) {
	rows := append(handRows(),
		lossyRow("a", "snapkv", "1x", 30, 0.6), lossyRow("b", "snapkv", "1x", 10, 0.7),
		lossyRow("a", "streamingllm", "1x", 50, 0.4), lossyRow("b", "streamingllm", "1x", 50, 0.5))
	l := mustBoard(t, rows).Lossy
	if len(l.Ranked) != 2 || l.Ranked[0].Policy != "snapkv" || l.Ranked[0].Rank != "1" || l.Ranked[1].Rank != "2" {
		t.Fatalf("ranked %+v", l.Ranked)
	}
	f := l.Ranked[0].Pooled
	wantFigure(t, "recall", f.Recall, 1-40.0/200) // pooled, not the mean of 0.7 and 0.9
	for _, c := range []struct {
		what string
		got  *float64
		want float64
	}{
		{"mass kept", f.MassKept, 0.65 / 0.8}, {"least", f.MassLeast, 0.65}, {"most", f.MassMost, 0.85}, {"covered", f.CoveredMass, 0.8},
	} {
		if c.got == nil || math.Abs(*c.got-c.want) > 1e-8 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if f.Lost != 40 || f.Cells != 2 || f.ResidentMean != 9.5 {
		t.Errorf("figures %+v", f)
	}
}

// A board of lossy rows alone needs no optimum.
func TestLossyAlone(t *testing.T) {
	var rows []Row
	for i := range 6 {
		rows = append(rows, forRequest(lossyRow("a", "h2o", "1x", int64(10+i), 0.5), fmt.Sprint(i)), forRequest(lossyRow("a", "snapkv", "1x", int64(40+2*i), 0.4), fmt.Sprint(i)))
	}
	b := mustBoard(t, rows)
	h2o := b.Lossy.Ranked[0]
	if h2o.Policy != "h2o" || h2o.Pooled.Recall.Low == nil || *h2o.Pooled.Recall.Low > h2o.Pooled.Recall.Value || *h2o.Pooled.Recall.High < h2o.Pooled.Recall.Value {
		t.Errorf("%+v", h2o.Pooled.Recall)
	}
	if h2o.Letters != "a" || b.Lossy.Ranked[1].Letters != "b" || len(b.Tables) != 0 || len(b.Cells) != 0 { // 2 ÷ 2⁶ for one pair
		t.Errorf("letters %s and %s, tables %d, cells %d", h2o.Letters, b.Lossy.Ranked[1].Letters, len(b.Tables), len(b.Cells))
	}
	if text := renderAll(t, b); !strings.Contains(text, "Lossy methods: recall of the demand at equal budget") || !strings.Contains(text, "50.0–70.0 %") {
		t.Error(text)
	}
}

// Cells of a trace share their draws: of two that are alike the pooled interval is that of
// one, as what is lost and what is demanded double.
func TestLossyPooledInterval(t *testing.T) {
	var one, two []Row
	for i := range 6 {
		for _, capacity := range []string{"1x", "2x"} {
			r := forRequest(lossyRow("a", "h2o", capacity, int64(10+7*i%30), 0.5), fmt.Sprint(i))
			if two = append(two, r); capacity == "1x" {
				one = append(one, r)
			}
		}
	}
	want, got := mustBoard(t, one).Lossy.Unranked[0].Pooled.Recall, mustBoard(t, two).Lossy.Unranked[0].Pooled.Recall
	if got.Value != want.Value || *got.Low != *want.Low || *got.High != *want.High || *got.Low >= got.Value || *got.High <= got.Value {
		t.Errorf("recall %g [%g, %g] of two cells, %g [%g, %g] of one", got.Value, *got.Low, *got.High, want.Value, *want.Low, *want.High)
	}
}

// What is lost and what is demanded add up over traces: of one that loses nothing and one of
// as many requests that all lose half, every resample loses a quarter.
func TestLossyIntervalOverTraces(t *testing.T) {
	var rows []Row
	for i := range 6 {
		for trace, lost := range map[string]int64{"a": 0, "b": 50} {
			rows = append(rows, forRequest(lossyRow(trace, "h2o", "1x", lost, 0.5), fmt.Sprint(i)))
		}
	}
	if r := mustBoard(t, rows).Lossy.Unranked[0].Pooled.Recall; r.Value != 0.75 || *r.Low != 0.75 || *r.High != 0.75 {
		t.Errorf("recall %g [%g, %g], expected 0.75 throughout", r.Value, *r.Low, *r.High)
	}
}

// A policy whose rows are pooled over requests has no interval beside one that has.
func TestLossyIntervalNeedsRequests(t *testing.T) {
	var rows []Row
	pooled := lossyRow("a", "snapkv", "1x", 0, 0.5)
	pooled.Streams, pooled.Steps, pooled.Demand, pooled.Hits = 6, 60, 600, 600
	for i := range 6 {
		rows = append(rows, forRequest(lossyRow("a", "h2o", "1x", int64(10+7*i), 0.5), fmt.Sprint(i)))
	}
	ranked := mustBoard(t, append(rows, pooled)).Lossy.Ranked
	if r := ranked[0].Pooled.Recall; ranked[0].Policy != "snapkv" || r.Low != nil || r.High != nil {
		t.Errorf("%s: %+v", ranked[0].Policy, r)
	}
	if r := ranked[1].Pooled.Recall; r.Low == nil || r.High == nil {
		t.Errorf("%s: %+v", ranked[1].Policy, r)
	}
}

// Wherever a trace of an approximate selector is named, its recall stands beside it.
func TestSelectorRecallIsShown(t *testing.T) {
	rows := append(handRows(), row("a", "lru", "peak:window:2", 24))
	window := row("a", "window:2", "", 30)
	window.Options, window.ResidentPeak = "2", 20
	rows = append(rows, window, lossyRow("a", "snapkv", "1x", 30, 0.6))
	for i := range rows {
		if rows[i].Trace == "a" {
			rows[i].Selector, rows[i].SelectorRecall = "quest", ptr(0.25)
		} else {
			rows[i].Selector = "exact"
		}
	}
	text := renderAll(t, mustBoard(t, rows))
	for _, want := range []string{
		"misses ÷ OPT's at the same capacity, selector recall 25.0 %", "equal budget, selector recall 25.0 %",
		"Exact policies on a (quest, recall 25.0 %): × OPT", "Lossy methods on a (quest, recall 25.0 %): recall",
		"\n a (quest, recall 25.0 %)  window:2", "whatever serves it: a (quest, recall 25.0 %)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "exact, recall") {
		t.Error("the exact selector approximates nothing")
	}
	// Pooled is the least of the approximate ones: b's selector is exact.
	b, at := mustBoard(t, rows), func(trace string) CellRef { return CellRef{Trace: trace} }
	if r := b.leastRecall([]CellRef{at("b"), at("a")}); r == nil || *r != 0.25 {
		t.Errorf("recall over both traces %v", r)
	}
	if r := b.leastRecall([]CellRef{at("b")}); r != nil {
		t.Errorf("recall of an exact selector %v", *r)
	}
	rows[0].SelectorRecall = nil
	if _, err := NewBoard(rows, Options{}); err == nil || !strings.Contains(err.Error(), "selector_recall") {
		t.Errorf("error %v", err)
	}
}

// Of several selectors a title says the range of their recalls, or that one was not measured.
func TestMarkedWithRecalls(t *testing.T) {
	b := &Board{Traces: []TraceInfo{{Trace: "a", Selector: "quest", SelectorRecall: ptr(0.25)}, {Trace: "b", Selector: "quest", SelectorRecall: ptr(0.5)}, {Trace: "c", Selector: "magicpig"}, {Trace: "d", Selector: "dsa"}}}
	for traces, want := range map[string]struct {
		title string
		least float64 // 0: none
	}{
		"a b d": {", selector recall 25.0 % to 50.0 %", 0.25},
		"b":     {", selector recall 50.0 %", 0.5},
		"a c":   {", selector recall not measured", 0},
		"d":     {"", 0},
	} {
		var refs []CellRef
		for trace := range strings.FieldsSeq(traces) {
			refs = append(refs, CellRef{Trace: trace})
		}
		least := 0.
		if r := b.leastRecall(refs); r != nil {
			least = *r
		}
		if got := b.marked(section{}, refs); got.title != want.title || least != want.least {
			t.Errorf("%s: title %q and least %g, expected %q and %g", traces, got.title, least, want.title, want.least)
		}
	}
	if got, want := b.traceName("c"), "c (magicpig, recall not measured)"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestLossyRowsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Row){
		"hits 70 + misses 1 + lost 30":       func(r *Row) { r.Misses = 1 },
		"a lossy policy fetches nothing":     func(r *Row) { r.Misses, r.Lost = 1, 29 },
		"recall 0.8 ≠":                       func(r *Row) { r.Recall = ptr(0.8) },
		"recall must be there":               func(r *Row) { r.Recall = nil },
		"kept_mass 0.9 of covered_mass 0.8":  func(r *Row) { r.KeptMass = ptr(0.9) },
		"kept_mass goes with covered_mass":   func(r *Row) { r.CoveredMass = nil },
		"others lose nothing":                func(r *Row) { r.Lossy, r.Recall = false, nil },
		"covered_mass 1.2: expected":         func(r *Row) { r.CoveredMass = ptr(1.2) },
		"selector_recall 1.1 of selector":    func(r *Row) { r.Selector, r.SelectorRecall = "quest", ptr(1.1) },
		"resident_mean 8 > resident_peak 7":  func(r *Row) { r.ResidentMean, r.ResidentPeak = 8, 7 },
		`selector_recall 0.5 of selector ""`: func(r *Row) { r.SelectorRecall = ptr(0.5) },
	} {
		r := lossyRow("a", "snapkv", "1x", 30, 0.6)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		change(&r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
