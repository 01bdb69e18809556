package board

import (
	"fmt"
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestLossyByHand(t *testing.T) {
	rows := append(rowstest.HandRows(),
		rowstest.LossyRow("a", "snapkv", "1x", 30, 0.6), rowstest.LossyRow("b", "snapkv", "1x", 10, 0.7),
		rowstest.LossyRow("a", "streamingllm", "1x", 50, 0.4), rowstest.LossyRow("b", "streamingllm", "1x", 50, 0.5))
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

// Cells of a trace share their draws. Two equal cells have the pooled interval of one, because both
// lost blocks and demand double.
func TestLossyPooledInterval(t *testing.T) {
	var one, two []result.Row
	for i := range 6 {
		for _, capacity := range []string{"1x", "2x"} {
			r := rowstest.ForRequest(rowstest.LossyRow("a", "h2o", capacity, int64(10+7*i%30), 0.5), fmt.Sprint(i))
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

// Lost blocks and demand add up over traces. One trace loses nothing, and one with the same number
// of requests loses half in each. Every resample then loses a quarter.
func TestLossyIntervalOverTraces(t *testing.T) {
	var rows []result.Row
	for i := range 6 {
		for trace, lost := range map[string]int64{"a": 0, "b": 50} {
			rows = append(rows, rowstest.ForRequest(rowstest.LossyRow(trace, "h2o", "1x", lost, 0.5), fmt.Sprint(i)))
		}
	}
	if r := mustBoard(t, rows).Lossy.Unranked[0].Pooled.Recall; r.Value != 0.75 || *r.Low != 0.75 || *r.High != 0.75 {
		t.Errorf("recall %g [%g, %g], expected 0.75 throughout", r.Value, *r.Low, *r.High)
	}
}

// A policy whose rows are pooled over requests has no interval, even if another policy has one.
func TestLossyIntervalNeedsRequests(t *testing.T) {
	var rows []result.Row
	pooled := rowstest.LossyRow("a", "snapkv", "1x", 0, 0.5)
	pooled.Streams, pooled.Steps, pooled.Demand, pooled.Hits = 6, 60, 600, 600
	for i := range 6 {
		rows = append(rows, rowstest.ForRequest(rowstest.LossyRow("a", "h2o", "1x", int64(10+7*i), 0.5), fmt.Sprint(i)))
	}
	ranked := mustBoard(t, append(rows, pooled)).Lossy.Ranked
	if r := ranked[0].Pooled.Recall; ranked[0].Policy != "snapkv" || r.Low != nil || r.High != nil {
		t.Errorf("%s: %+v", ranked[0].Policy, r)
	}
	if r := ranked[1].Pooled.Recall; r.Low == nil || r.High == nil {
		t.Errorf("%s: %+v", ranked[1].Policy, r)
	}
}
