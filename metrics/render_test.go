package metrics

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// renderRows are handRows with what a rendering must show: a tie, a bypassing policy,
// warnings, a policy that lacks a trace, a window, a lossy policy.
func renderRows() []Row {
	rows := append(handRows(), row("a", "bypasser", "1x", 45), row("a", "bypasser", "2x", 30), row("b", "bypasser", "1x", 12),
		row("a", "lossy", "1x", 20), row("b", "opt", "2x", 0), row("b", "lru", "2x", 3),
		row("c", "late|r", "1x", 9), row("c", "opt", "1x", 8), row("a", "lru", "peak:window:2", 24))
	window := row("a", "window:2", "", 30)
	window.Options, window.ResidentMean, window.ResidentPeak = "2", 12.5, 20
	rows = append(rows, window)
	rows[6].Warnings = []string{"overflow by 3 blocks"}
	rows[7].Warnings = []string{"overflow by 17 blocks"}
	return rows
}

func TestGoldens(t *testing.T) {
	b := mustBoard(t, renderRows())
	for name, render := range map[string]func(*bytes.Buffer) error{
		"board.txt": func(w *bytes.Buffer) error { return b.RenderTable(w, true) },
		"board.md":  func(w *bytes.Buffer) error { return b.RenderMarkdown(w, false) },
		"board.csv": func(w *bytes.Buffer) error { return b.RenderCSV(w) },
	} {
		var out bytes.Buffer
		if err := render(&out); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
	}
}

// TestJSONReadsBack: the JSON form holds the whole board, without null lists.
func TestJSONReadsBack(t *testing.T) {
	b := mustBoard(t, renderRows())
	var out bytes.Buffer
	if err := b.RenderJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Board
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := back.RenderJSON(&again); err != nil {
		t.Fatal(err)
	}
	if out.String() != again.String() {
		t.Error("the board read back has other bytes")
	}
	if strings.Contains(out.String(), `"notes": null`) || strings.Contains(out.String(), `"ranked": null`) {
		t.Error("a list is null")
	}
}

func TestCSVIsRectangular(t *testing.T) {
	var out bytes.Buffer
	if err := mustBoard(t, synthetic()).RenderCSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	// 6 policies: pooled and 4 capacities, 2 traces × 4 capacities; 2 windows; the header.
	if want := 6*5 + 6*8 + 2 + 1; err != nil || len(lines) != want {
		t.Errorf("%d lines, %v; want %d", len(lines), err, want)
	}
}

// lineOf is the words of the line of a text that has a policy's name.
func lineOf(t *testing.T, text, policy string) []string {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if words := strings.Fields(line); slices.Contains(words, policy) {
			return words
		}
	}
	t.Fatalf("no line of %s in\n%s", policy, text)
	return nil
}

// Every column has its own figure under it: shares in percent, ratios with their ends, times
// in milliseconds.
func TestColumnsHaveTheirFigures(t *testing.T) {
	share := func(value, low, high float64) *Figure { return &Figure{Value: value, Low: &low, High: &high} }
	b := &Board{
		Time: &TimeModel{Batch: 8},
		Tables: []Table{{Capacities: []string{"2x"}, Ranked: []Line{{Rank: "1", Policy: "p", Capacities: []*Figures{{XOpt: share(1.25, 1.25, 1.25)}}, Pooled: &Figures{
			XOpt: share(1.5, 1.25, 2), XLRU: &Figure{Value: 0.75}, GapClosed: &Figure{Value: 0.6}, HitRate: &Figure{Value: 0.875}, BytesPerStep: ptr(2048.), TPOT: ptr(0.0125)}}}}},
		Windows: []WindowLine{{Trace: "a", Policy: "window:2", ResidentMean: 12.5, ResidentPeak: 20, Figures: &Figures{
			Misses: 30, LRUMisses: ptr(int64(24)), OptMisses: ptr(int64(15)), XLRU: &Figure{Value: 1.25}, XOpt: &Figure{Value: 2}, HitRate: &Figure{Value: 0.7}, BytesPerStep: ptr(1024.), TPOT: ptr(0.002)}}},
		Lossy: &LossyTable{Capacities: []string{"2x"}, Ranked: []LossyLine{
			{Rank: "1", Letters: "b", Policy: "whole", Capacities: []*LossyFigures{{Recall: share(0.925, 0.9, 0.95)}}, Pooled: &LossyFigures{Cells: 1, Recall: share(0.9, 0.85, 0.95),
				MassKept: ptr(0.8), MassLeast: ptr(0.6), MassMost: ptr(0.85), CoveredMass: ptr(0.75), ResidentMean: 12.5, Lost: 30, Demand: 300, Steps: 20}},
			{Rank: "2", Policy: "silent", Capacities: []*LossyFigures{nil}, Pooled: &LossyFigures{Cells: 1, Recall: &Figure{Value: 0.5}, ResidentMean: 8, Lost: 150, Demand: 300, Steps: 20}},
		}},
	}
	var text, lines bytes.Buffer
	if err := b.RenderTable(&text, false); err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string]string{
		"p":        "1 p 1.5 [1.2, 2.0] 1.25 0.750 60.0 % 87.5 % 2.00 KiB 12.5 ms",
		"window:2": "a window:2 12.5 20 30 24 15 1.25 2.00 70.0 % 1.00 KiB 2.00 ms",
		"whole":    "1 whole b 90 % [85, 95] 92 % 1.50 80.0 % 75.0 % 60.0–85.0 % 12.5",
		"silent":   "2 silent 50 % n/a n/a 7.50 n/a n/a n/a 8.00",
	} {
		if got := strings.Join(lineOf(t, text.String(), policy), " "); got != want {
			t.Errorf("%s: %q, expected %q", policy, got, want)
		}
	}
	var headers []string
	for line := range strings.SplitSeq(text.String(), "\n") {
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
	// By time, a capacity's is its own, of OPT's and in tokens a second of the batch.
	timed := &Board{RankedBy: ByTime, Time: b.Time, Tables: []Table{b.Tables[0]}}
	p := *b.Tables[0].Ranked[0].Pooled
	timed.Tables[0].Ranked = []Line{{Rank: "1", Policy: "p", Pooled: &p, Capacities: []*Figures{{TPOT: ptr(0.015)}}}}
	timed.Tables[0].Bounds = []Line{{Policy: "opt", Pooled: &Figures{TPOT: ptr(0.01)}, Capacities: []*Figures{nil}}}
	var byTime bytes.Buffer
	if err := timed.RenderTable(&byTime, false); err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[string]string{"p": "1 p 12.5 ms 15.0 ms 1.25 640 1.5 2.00 KiB", "opt": "bound opt 10.0 ms n/a 1.00 800 n/a n/a"} {
		if got := strings.Join(lineOf(t, byTime.String(), policy), " "); got != want {
			t.Errorf("by time, %s: %q, expected %q", policy, got, want)
		}
	}
	if err := b.RenderCSV(&lines); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&lines).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
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

func TestMergeNotes(t *testing.T) {
	footnotes, of := mergeNotes([]string{"by 9 of 40", "by 11 of 40", "cold", "cold"})
	if len(footnotes) != 2 || footnotes[0] != "by 9–11 of 40" || of["by 11 of 40"] != footnotes[0] || of["cold"] != "cold" {
		t.Errorf("footnotes %q, %v", footnotes, of)
	}
}

// Decimals are one number, and the ends of a range are the least and the largest.
func TestMergedNotesKeepDecimals(t *testing.T) {
	footnotes, _ := mergeNotes([]string{"recall 0.15 of it", "recall 0.9 of it", "recall 1 of it", "12 of 9.5", "9 of 9.5"})
	if got, want := strings.Join(footnotes, "|"), "9–12 of 9.5|recall 0.15–1 of it"; got != want {
		t.Errorf("footnotes %q, want %q", got, want)
	}
}

// TestCSVNotesReadBack: texts with any mark come back one by one.
func TestCSVNotesReadBack(t *testing.T) {
	rows := handRows()
	want := []string{"a; b", "“c”, \"d\""}
	for i := range rows {
		rows[i].Warnings = want
	}
	var out bytes.Buffer
	if err := mustBoard(t, rows).RenderCSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		var got []string
		if err := json.Unmarshal([]byte(line[len(line)-1]), &got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("notes %q: %q, %v; want %q", line[len(line)-1], got, err, want)
		}
	}
}

// TestMarkdownEscapesNames: no name is markup, in whichever cell or header it stands.
func TestMarkdownEscapesNames(t *testing.T) {
	const trace, policy = "<img src=x>_a_|b", "<b>[p](x)|*"
	rows := []Row{row(trace, "opt", "1x", 4), row(trace, policy, "1x", 5), row("c", "opt", "1x", 4), row("c", policy, "1x", 5)}
	var out bytes.Buffer
	if err := mustBoard(t, rows).RenderMarkdown(&out, true); err != nil {
		t.Fatal(err)
	}
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

func TestCapacityOrder(t *testing.T) {
	got := sortCapacities([]string{"64MiB", "10x", "6400", "0.2ctx", "2x", "1GiB", "800", "odd", "2x"})
	if want := "2x 10x 0.2ctx 800 6400 64MiB 1GiB odd"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBytesText(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0 B", 999: "999 B", 1023: "0.999 KiB", 1024: "1.00 KiB", 1536: "1.50 KiB", 1 << 20: "1.00 MiB", 1 << 31: "2.00 GiB", 1 << 41: "2.00 TiB"} {
		if got := bytesText(&x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
