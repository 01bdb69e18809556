package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// A board with only lossy rows needs no optimum.
func TestLossyAlone(t *testing.T) {
	var rows []result.Row
	for i := range 6 {
		rows = append(rows, rowstest.ForRequest(rowstest.LossyRow("a", "h2o", "1x", int64(10+i), 0.5), fmt.Sprint(i)), rowstest.ForRequest(rowstest.LossyRow("a", "snapkv", "1x", int64(40+2*i), 0.4), fmt.Sprint(i)))
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

// Wherever a trace of an approximate selector is named, its recall follows.
func TestSelectorRecallIsShown(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lru", "peak:window:2", 24))
	window := rowstest.Row("a", "window:2", "", 30)
	window.Options, window.ResidentPeak = "2", 20
	rows = append(rows, window, rowstest.LossyRow("a", "snapkv", "1x", 30, 0.6))
	for i := range rows {
		if rows[i].Trace == "a" {
			rows[i].Selector, rows[i].SelectorRecall = "quest", rowstest.Ptr(0.25)
		} else {
			rows[i].Selector = "exact"
		}
	}
	text := renderAll(t, mustBoard(t, rows))
	for _, want := range []string{
		"misses ÷ OPT's at the same capacity, selector recall 25.0 %", "equal budget, selector recall 25.0 %",
		"Exact policies on a (quest, recall 25.0 %): × OPT", "Lossy methods on a (quest, recall 25.0 %): recall",
		"\n a (quest, recall 25.0 %)  window:2", "share of the exact Top-K: a (quest, recall 25.0 %)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "exact, recall") {
		t.Error("the exact selector approximates nothing")
	}
	// Pooled is the least of the approximate ones, because b's selector is exact.
	b, at := mustBoard(t, rows), func(trace string) board.CellRef { return board.CellRef{Trace: trace} }
	if r := leastRecall(b, []board.CellRef{at("b"), at("a")}); r == nil || *r != 0.25 {
		t.Errorf("recall over both traces %v", r)
	}
	if r := leastRecall(b, []board.CellRef{at("b")}); r != nil {
		t.Errorf("recall of an exact selector %v", *r)
	}
	rows[0].SelectorRecall = nil
	if _, err := board.NewBoard(rows, board.Options{}); err == nil || !strings.Contains(err.Error(), "selector_recall") {
		t.Errorf("error %v", err)
	}
}

// With several selectors a title states the range of their recalls, or that one was not measured.
func TestMarkedWithRecalls(t *testing.T) {
	b := &board.Board{Traces: []board.TraceInfo{{Setting: result.Setting{Trace: "a", Selector: "quest", SelectorRecall: rowstest.Ptr(0.25)}}, {Setting: result.Setting{Trace: "b", Selector: "quest", SelectorRecall: rowstest.Ptr(0.5)}}, {Setting: result.Setting{Trace: "c", Selector: "magicpig"}}, {Setting: result.Setting{Trace: "d", Selector: "dsa"}}}}
	for traces, want := range map[string]struct {
		title string
		least float64 // 0: none
	}{
		"a b d": {", selector recall 25.0 % to 50.0 %", 0.25},
		"b":     {", selector recall 50.0 %", 0.5},
		"a c":   {", selector recall not measured", 0},
		"d":     {"", 0},
	} {
		var refs []board.CellRef
		for trace := range strings.FieldsSeq(traces) {
			refs = append(refs, board.CellRef{Trace: trace})
		}
		least := 0.
		if r := leastRecall(b, refs); r != nil {
			least = *r
		}
		v := boardView{Board: b}
		if got, _ := v.selectorRecall(refs); got != want.title || least != want.least {
			t.Errorf("%s: title %q and least %g, expected %q and %g", traces, got, least, want.title, want.least)
		}
	}
	if got, want := (&boardView{Board: b}).traceName("c"), "c (magicpig, recall not measured)"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
