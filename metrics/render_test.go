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
	for x, want := range map[float64]string{0: "0.00 B", 1023: "1023.00 B", 1536: "1.50 KiB", 1 << 31: "2.00 GiB", 1 << 41: "2.00 TiB"} {
		if got := bytesText(&x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
