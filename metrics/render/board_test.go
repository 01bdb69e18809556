package render

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustBoard(t *testing.T, rows []result.Row) *board.Board {
	t.Helper()
	b, err := board.NewBoard(rows, board.Options{})
	fatal.If(t, err)
	return b
}

func wantFigure(t *testing.T, what string, f *board.Figure, want float64) {
	t.Helper()
	if f == nil || math.Abs(f.Value-want) > 1e-8 {
		t.Errorf("%s: got %+v, want %v", what, f, want)
	}
}

// TestOrderOfRowsDoesNotMatter shuffles the rows: every rendering keeps its bytes.
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	for _, rows := range [][]result.Row{rowstest.Synthetic(), rowstest.RenderRows(), append(rowstest.RenderRows(), rowstest.RenderRows()...)} {
		want := renderAll(t, mustBoard(t, rows))
		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed, 0))
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			if got := renderAll(t, mustBoard(t, rows)); got != want {
				t.Fatalf("seed %d: other bytes", seed)
			}
		}
	}
}

// everything is the view with all that there is.
var everything = View{Wide: true, PerTrace: true, Notes: true}

func renderAll(t *testing.T, b *board.Board) string {
	t.Helper()
	var out bytes.Buffer
	for _, err := range []error{Board(b, everything).Text(&out), Board(b, everything).Markdown(&out), CSV(&out, b), text.WriteJSON(&out, b)} {
		fatal.If(t, err)
	}
	for _, trace := range CurveTraces(b) {
		fmt.Fprintln(&out, CurveNames(b, "", nil)[trace])
		fatal.If(t, Curves(&out, b, trace, View{}))
	}
	return out.String()
}

// With prefetches, OPT bounds nothing, so its line does not call it a bound.
func TestOPTOfPrefetchesIsNoBound(t *testing.T) {
	rows := slices.DeleteFunc(rowstest.HandRows(), func(r result.Row) bool { return r.Trace != "b" })
	for i := range rows {
		rows[i].Prefetch = "candidates:8"
	}
	var out bytes.Buffer
	fatal.If(t, Board(mustBoard(t, rows), Whole).Text(&out))
	if got := rowstest.LineOf(t, out.String(), "opt"); got[0] != "–" {
		t.Errorf("line %q, expected no bound", got)
	}
}

// TestNoRankAmongOne: a policy that shares no cell with another is shown and not ranked, whether
// there are other policies or not.
func TestNoRankAmongOne(t *testing.T) {
	alone := slices.DeleteFunc(rowstest.HandRows(), func(r result.Row) bool { return r.Policy == "lru" })
	table := mustBoard(t, alone).Tables[0]
	if len(table.Ranked) != 0 || len(table.Unranked) != 1 || table.Unranked[0].Rank != "" {
		t.Fatalf("ranked %+v, unranked %+v", table.Ranked, table.Unranked)
	}
	wantFigure(t, "p alone", table.Unranked[0].Pooled.XOpt, math.Cbrt(2.25))
	rowstest.WantNote(t, table.Notes, "p is not ranked: no other policy has its cells. Replay another policy at the same capacities")
	rowstest.WantNote(t, table.Notes, "Pooled over 3 cells. Cells: a 1x 2x, b 1x")

	apart := []result.Row{rowstest.Row("a", "opt", "1x", 40), rowstest.Row("a", "p", "1x", 50), rowstest.Row("b", "opt", "1x", 10), rowstest.Row("b", "q", "1x", 12), rowstest.Row("b", "q", "2x", 12), rowstest.Row("b", "opt", "2x", 10)}
	b := mustBoard(t, apart)
	table = b.Tables[0]
	if len(table.Ranked) != 0 || len(table.Unranked) != 2 || len(table.Common) != 0 {
		t.Fatalf("ranked %+v, unranked %+v over %v", table.Ranked, table.Unranked, table.Common)
	}
	if len(table.Notes) != 1 {
		t.Errorf("notes %q, want one", table.Notes)
	}
	rowstest.WantNote(t, table.Notes, "Not ranked: no two policies have a trace and capacity in common. Replay them at the same capacities")
	wantFigure(t, "p on a", table.Unranked[0].Traces[0].XOpt, 1.25)
	if words := rowstest.LineOf(t, renderAll(t, b), "q"); words[0] != notAvailable {
		t.Errorf("the line of q is %q", words)
	}
}
