package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestGoldens(t *testing.T) {
	b := mustBoard(t, rowstest.RenderRows())
	for name, render := range map[string]func(*bytes.Buffer) error{
		"board.txt":      func(w *bytes.Buffer) error { return Board(b, View{}).Text(w) },
		"board_wide.txt": func(w *bytes.Buffer) error { return Board(b, everything).Text(w) },
		"board.md":       func(w *bytes.Buffer) error { return Board(b, Whole).Markdown(w) },
		"board.csv":      func(w *bytes.Buffer) error { return CSV(w, b) },
	} {
		var out bytes.Buffer
		fatal.If(t, render(&out))
		rowstest.Golden(t, name, out.Bytes())
	}
}

// TestJSONReadsBack: the JSON form has the whole board, without null lists.
func TestJSONReadsBack(t *testing.T) {
	b := mustBoard(t, rowstest.RenderRows())
	var out bytes.Buffer
	fatal.If(t, text.WriteJSON(&out, b))
	var back board.Board
	fatal.If(t, json.Unmarshal(out.Bytes(), &back))
	var again bytes.Buffer
	fatal.If(t, text.WriteJSON(&again, back))
	if out.String() != again.String() {
		t.Error("the board read back has other bytes")
	}
	if strings.Contains(out.String(), `"notes": null`) || strings.Contains(out.String(), `"ranked": null`) {
		t.Error("a list is null")
	}
}

func TestCSVIsRectangular(t *testing.T) {
	var out bytes.Buffer
	fatal.If(t, CSV(&out, mustBoard(t, rowstest.Synthetic())))
	lines, err := csv.NewReader(&out).ReadAll()
	// 6 policies, pooled and at 4 capacities. 2 traces × 4 capacities. 2 windows. The header.
	if want := 6*5 + 6*8 + 2 + 1; err != nil || len(lines) != want {
		t.Errorf("%d lines, %v; want %d", len(lines), err, want)
	}
}

// Every column has its own figure under it: shares in percent, ratios with their ends, times
// in milliseconds.
func TestColumnsHaveTheirFigures(t *testing.T) {
	share := func(value, low, high float64) *board.Figure {
		return &board.Figure{Value: value, Low: &low, High: &high}
	}
	b := &board.Board{
		Time: &board.TimeModel{Batch: 8},
		Tables: []board.Ranking{{Key: board.MissesKey, Capacities: []string{"2x"}, Ranked: []board.Line{{Rank: "1", Policy: "p", Capacities: []*board.Figures{{ExactFigures: &board.ExactFigures{XOpt: share(1.25, 1.25, 1.25)}}}, Pooled: &board.Figures{ExactFigures: &board.ExactFigures{
			XOpt: share(1.5, 1.25, 2), XLRU: &board.Figure{Value: 0.75}, GapClosed: &board.Figure{Value: 0.6}, HitRate: &board.Figure{Value: 0.875}, BytesPerStep: rowstest.Ptr(2048.), TPOT: rowstest.Ptr(0.0125)}}}}}},
		Windows: []board.WindowLine{{Trace: "a", Policy: "window:2", ResidentMean: 12.5, ResidentPeak: 20, Figures: &board.Figures{ExactFigures: &board.ExactFigures{
			Misses: 30, LRUMisses: rowstest.Ptr(int64(24)), OptMisses: rowstest.Ptr(int64(15)), XLRU: &board.Figure{Value: 1.25}, XOpt: &board.Figure{Value: 2}, HitRate: &board.Figure{Value: 0.7}, BytesPerStep: rowstest.Ptr(1024.), TPOT: rowstest.Ptr(0.002)}}}},
		Lossy: &board.Ranking{Key: board.RecallKey, Capacities: []string{"2x"}, Ranked: []board.Line{
			{Rank: "1", Letters: "b", Policy: "whole", Capacities: []*board.Figures{{LossyFigures: &board.LossyFigures{Recall: share(0.925, 0.9, 0.95)}}}, Pooled: &board.Figures{Cells: 1, Demand: 300, Steps: 20, LossyFigures: &board.LossyFigures{Recall: share(0.9, 0.85, 0.95),
				MassKept: rowstest.Ptr(0.8), MassLeast: rowstest.Ptr(0.6), MassMost: rowstest.Ptr(0.85), CoveredMass: rowstest.Ptr(0.75), ResidentMean: 12.5, Lost: 30}}},
			{Rank: "2", Policy: "silent", Capacities: []*board.Figures{nil}, Pooled: &board.Figures{Cells: 1, Demand: 300, Steps: 20, LossyFigures: &board.LossyFigures{Recall: &board.Figure{Value: 0.5}, ResidentMean: 8, Lost: 150}}},
		}},
	}
	var shown, lines bytes.Buffer
	fatal.If(t, Board(b, Whole).Text(&shown))
	for policy, want := range map[string]string{
		"p":        "1 p 1.5 [1.2, 2.0] 1.25 0.750 60.0 % 87.5 % 2.00 KiB 12.5 ms",
		"window:2": "a window:2 12.5 20 30 24 15 1.25 2.00 70.0 % 1.00 KiB 2.00 ms",
		"whole":    "1 whole b 90 % [85, 95] 92 % 1.50 80.0 % 75.0 % 60.0–85.0 % 12.5",
		"silent":   "2 silent 50 % n/a n/a 7.50 n/a n/a n/a 8.00",
	} {
		if got := strings.Join(rowstest.LineOf(t, shown.String(), policy), " "); got != want {
			t.Errorf("%s: %q, expected %q", policy, got, want)
		}
	}
	var headers []string
	for line := range strings.SplitSeq(shown.String(), "\n") {
		if words := strings.Fields(line); slices.Contains(words, "policy") {
			headers = append(headers, strings.Join(words, " "))
		}
	}
	if want := []string{
		"# policy × OPT 95 % at 2x × LRU gap closed hit rate H2D/step TPOT",
		"# policy letters recall 95 % at 2x lost/step mass kept recorded of all mass held",
		"trace policy mean size peak size misses LRU at peak OPT at peak × LRU × OPT hit rate H2D/step TPOT",
	}; !slices.Equal(headers, want) {
		t.Errorf("headers %q, expected %q", headers, want)
	}
	// By time, a capacity's time is its own, as a multiple of OPT's and in tokens per second of the
	// batch.
	timed := &board.Board{RankedBy: board.ByTime, Time: b.Time, Tables: []board.Ranking{b.Tables[0]}}
	p := *b.Tables[0].Ranked[0].Pooled
	timed.Tables[0].Key = board.TimeKey
	timed.Tables[0].Ranked = []board.Line{{Rank: "1", Policy: "p", Pooled: &p, Capacities: []*board.Figures{{ExactFigures: &board.ExactFigures{TPOT: rowstest.Ptr(0.015)}}}}}
	timed.Tables[0].Bounds = []board.Line{{Policy: "opt", Pooled: &board.Figures{ExactFigures: &board.ExactFigures{TPOT: rowstest.Ptr(0.01)}}, Capacities: []*board.Figures{nil}}}
	var byTime bytes.Buffer
	fatal.If(t, Board(timed, Whole).Text(&byTime))
	for policy, want := range map[string]string{"p": "1 p 12.5 ms 15.0 ms 1.25 640 1.5 2.00 KiB", "opt": "bound opt 10.0 ms n/a 1.00 800 n/a n/a"} {
		if got := strings.Join(rowstest.LineOf(t, byTime.String(), policy), " "); got != want {
			t.Errorf("by time, %s: %q, expected %q", policy, got, want)
		}
	}
	fatal.If(t, CSV(&lines, b))
	all, err := csv.NewReader(&lines).ReadAll()
	fatal.If(t, err)
	for _, line := range all[1:] {
		of := map[string]string{}
		for i, name := range all[0] {
			of[name] = line[i]
		}
		if of["policy"] != "whole" || of["scope"] != "pooled" {
			continue
		}
		for name, want := range map[string]string{"mass_kept": "0.8", "mass_least": "0.6", "mass_most": "0.85", "covered_mass": "0.75", "resident_mean": "12.5", "lost": "30", "demand": "300", "steps": "20", "letters": "b"} {
			if of[name] != want {
				t.Errorf("CSV %s is %q, expected %s", name, of[name], want)
			}
		}
		return
	}
	t.Error("no pooled line of a lossy policy in the CSV")
}

// TestCSVNotesReadBack: texts with any mark are read back one by one.
func TestCSVNotesReadBack(t *testing.T) {
	rows := rowstest.HandRows()
	want := []string{"a; b", "“c”, \"d\""}
	for i := range rows {
		rows[i].Warnings = want
	}
	var out bytes.Buffer
	fatal.If(t, CSV(&out, mustBoard(t, rows)))
	lines, err := csv.NewReader(&out).ReadAll()
	fatal.If(t, err)
	for _, line := range lines[1:] {
		var got []string
		if err := json.Unmarshal([]byte(line[len(line)-1]), &got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("notes %q: %q, %v; want %q", line[len(line)-1], got, err, want)
		}
	}
}

// TestMarkdownEscapesNames: no name is markup, in any cell or header.
func TestMarkdownEscapesNames(t *testing.T) {
	const trace, policy = "<img src=x>_a_|b", "<b>[p](x)|*"
	rows := []result.Row{rowstest.Row(trace, "opt", "1x", 4), rowstest.Row(trace, policy, "1x", 5), rowstest.Row("c", "opt", "1x", 4), rowstest.Row("c", policy, "1x", 5)}
	var out bytes.Buffer
	fatal.If(t, Board(mustBoard(t, rows), everything).Markdown(&out))
	plain := regexp.MustCompile(`\\.`).ReplaceAllString(out.String(), "")
	for _, raw := range []string{"<", "](", "_a", "|b", "|*"} {
		if strings.Contains(plain, raw) {
			t.Errorf("%q is not escaped in\n%s", raw, out.String())
		}
	}
	for _, want := range []string{"| &lt;img src=x>\\_a\\_\\|b |", "&lt;b>[p]\\(x)\\|\\* |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestBytesText(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0 B", 999: "999 B", 1023: "0.999 KiB", 1024: "1.00 KiB", 1536: "1.50 KiB", 1 << 20: "1.00 MiB", 1 << 31: "2.00 GiB", 1 << 41: "2.00 TiB"} {
		if got := bytesText(&x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
