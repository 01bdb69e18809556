package board

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func mustBoard(t *testing.T, rows []result.Row) *Board {
	t.Helper()
	b, err := NewBoard(rows, Options{})
	fatal.If(t, err)
	return b
}

func wantFigure(t *testing.T, what string, f *Figure, want float64) {
	t.Helper()
	if f == nil || math.Abs(f.Value-want) > 1e-8 {
		t.Errorf("%s: got %+v, want %v", what, f, want)
	}
}

// A policy's line has the footnotes of its cells on the board. Rows at the peak of a window are not
// on the board and give it none.
func TestFootnotesAreOfTheBoard(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lru", "peak:window:2", 24), rowstest.Row("a", "window:2", "", 30))
	for i := range rows {
		switch {
		case rows[i].Policy == "lru" && *rows[i].Capacity == "peak:window:2":
			rows[i].Warnings = []string{"of the peak"}
		case rows[i].Policy == "lru":
			rows[i].Warnings = []string{"of the board"}
		}
	}
	b := mustBoard(t, rows)
	for _, l := range b.Tables[0].Ranked {
		var notes []string
		for _, n := range l.Notes {
			notes = append(notes, b.Footnotes[n-1])
		}
		if l.Policy == "lru" && !slices.Equal(notes, []string{"of the board"}) {
			t.Errorf("lru has the footnotes %q", notes)
		}
	}
}

func TestBoardByHand(t *testing.T) {
	table := mustBoard(t, rowstest.HandRows()).Tables[0]
	if p, lru := table.Ranked[0], table.Ranked[1]; p.Policy != "p" || p.Rank != "1" || lru.Policy != "lru" || lru.Rank != "2" {
		t.Fatalf("ranked %+v", table.Ranked)
	}
	p := table.Ranked[0]
	// 50/40 × 30/20 × 12/10 = 1.25 × 1.5 × 1.2 = 2.25, over three cells.
	wantFigure(t, "× OPT", p.Pooled.XOpt, math.Cbrt(2.25))
	// At 1x: √(1.25 × 1.2). 2x has only trace a.
	wantFigure(t, "× OPT at 1x", p.Capacities[0].XOpt, math.Sqrt(1.5))
	wantFigure(t, "× OPT at 2x", p.Capacities[1].XOpt, 1.5)
	// 50/60 × 30/40 × 12/15 = 1/2.
	wantFigure(t, "× LRU", p.Pooled.XLRU, math.Cbrt(0.5))
	// (115 − 92) ÷ (115 − 70), of sums: not the mean of 1/2, 1/2 and 3/5.
	wantFigure(t, "gap closed", p.Pooled.GapClosed, 23.0/45)
	// (300 − 92) ÷ 300.
	wantFigure(t, "hit rate", p.Pooled.HitRate, 208.0/300)
	if p.Pooled.BytesPerStep != nil || p.Pooled.XOpt.Low != nil {
		t.Error("bytes without entry_bytes, or an interval from pooled rows")
	}
	opt := table.Bounds[0]
	wantFigure(t, "OPT × OPT", opt.Pooled.XOpt, 1)
	wantFigure(t, "OPT's gap", opt.Pooled.GapClosed, 1)
	wantFigure(t, "LRU's gap", table.Ranked[1].Pooled.GapClosed, 0)
}

func TestGeometricMeanIsOverCells(t *testing.T) {
	// 4× in one cell and 1× in another are 2×, with cells of any size.
	rows := []result.Row{
		rowstest.Row("a", "opt", "1x", 1), rowstest.Row("b", "opt", "1x", 80), rowstest.Row("a", "p", "1x", 4), rowstest.Row("b", "p", "1x", 80),
	}
	b := mustBoard(t, rows)
	wantFigure(t, "× OPT", b.Tables[0].Unranked[0].Pooled.XOpt, 2)
	if f := b.Tables[0].Unranked[0].Pooled; f.XLRU != nil || f.GapClosed != nil {
		t.Error("figures against LRU without rows of LRU")
	}
}

func TestBytesPerStep(t *testing.T) {
	rows := rowstest.HandRows()
	for i := range rows {
		rows[i].EntryBytes = rowstest.Ptr(8)
		rows[i].HostToDeviceBytes, rows[i].DeviceToHostBytes = rowstest.Ptr(8*rows[i].Misses), rowstest.Ptr(int64(80))
	}
	// p misses 92 in 3 cells of 10 steps.
	if got := mustBoard(t, rows).Tables[0].Ranked[0].Pooled.BytesPerStep; got == nil || math.Abs(*got-92*8/30.) > 1e-6 {
		t.Errorf("bytes per step %v", got)
	}
}

func TestCellsWithoutMissOfOPTAreLeftOut(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("b", "opt", "2x", 0), rowstest.Row("b", "lru", "2x", 9), rowstest.Row("b", "p", "2x", 3))
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "× OPT", table.Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
	wantFigure(t, "gap closed", table.Ranked[0].Pooled.GapClosed, 23.0/45)
	rowstest.WantNote(t, table.Notes, "Left out, because OPT has no misses: 1 cell: b 2x")
}

// TestCellsWithoutMissAreLeftOut: without opt-bypass nothing bounds a bypasser. It misses nothing
// at b 1x, so a mean over that cell would be 0.
func TestCellsWithoutMissAreLeftOut(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "bypasser", "1x", 80), rowstest.Row("a", "bypasser", "2x", 60), rowstest.Row("b", "bypasser", "1x", 0))
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "p", table.Ranked[0].Pooled.XOpt, math.Sqrt(1.25*1.5))
	if last := table.Ranked[2]; last.Policy != "bypasser" || len(table.NoMiss) != 1 {
		t.Errorf("last %s, left out %v", last.Policy, table.NoMiss)
	}
	rowstest.WantNote(t, table.Notes, "Left out, because only bypasser has no misses: 1 cell: b 1x")
}

// TestPrefetchingIsNotRanked: OPT does not bound caches that prefetch. Their cells are left out if
// there are others. Alone they are shown without ranks.
func TestPrefetchingIsNotRanked(t *testing.T) {
	rows := rowstest.HandRows()
	for i := range rows {
		if rows[i].Trace == "b" {
			rows[i].Prefetch = "candidates:8"
		}
	}
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "p", table.Ranked[0].Pooled.XOpt, math.Sqrt(1.25*1.5))
	rowstest.WantNote(t, table.Notes, "Left out, because OPT does not bound rows that prefetch: 1 cell: b 1x")
	table = mustBoard(t, slices.DeleteFunc(rows, func(r result.Row) bool { return r.Prefetch == "" })).Tables[0]
	if len(table.Ranked) != 0 || len(table.Unranked) != 2 || len(table.Bounds) != 1 {
		t.Fatalf("ranked %+v", table.Ranked)
	}
	wantFigure(t, "p alone", table.Unranked[1].Pooled.XOpt, 1.2)
	rowstest.WantNote(t, table.Notes, "Not ranked: the rows prefetch")
}

func TestCellsWithoutOPTAreLeftOut(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("b", "lru", "2x", 9), rowstest.Row("b", "p", "2x", 3))
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "× OPT", table.Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
	rowstest.WantNote(t, table.Notes, "Left out, because opt has no row: 1 cell: b 2x")
	_, err := NewBoard([]result.Row{rowstest.Row("a", "lru", "1x", 9)}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no rows of policy opt") {
		t.Errorf("board without OPT: %v", err)
	}
}

func TestPooledFiguresAreOverCommonCells(t *testing.T) {
	// q, one of two contenders, lacks trace b. The two are pooled over trace a alone.
	rows := append(rowstest.HandRows(), rowstest.Row("a", "q", "1x", 80), rowstest.Row("a", "q", "2x", 20))
	rows = slices.DeleteFunc(rows, func(r result.Row) bool { return r.Policy == "lru" })
	b := mustBoard(t, rows)
	table := b.Tables[0]
	lines := map[string]Line{}
	for _, l := range table.Ranked {
		lines[l.Policy] = l
	}
	wantFigure(t, "q", lines["q"].Pooled.XOpt, math.Sqrt(2))              // 80/40 × 20/20
	wantFigure(t, "p", lines["p"].Pooled.XOpt, math.Sqrt(1.875))          // 1.25 × 1.5
	wantFigure(t, "p at 1x", lines["p"].Capacities[0].XOpt, 1.25)         // trace b is not common
	wantFigure(t, "p's hit rate", lines["p"].Pooled.HitRate, 1-(80.)/200) // 50 + 30 misses
	rowstest.WantNote(t, table.Notes, "Pooled over 2 cells that all ranked policies have. Cells: a 1x 2x")
	rowstest.WantNote(t, table.Notes, "Not pooled, because q of the ranked policies did not run: b 1x. Pool them with --where policy!=q")
	if notes := lines["q"].Notes; len(notes) != 1 || b.Footnotes[notes[0]-1] != shrinksNote || len(lines["p"].Notes) > 0 {
		t.Errorf("notes of q %v, of p %v, footnotes %q", notes, lines["p"].Notes, b.Footnotes)
	}
}

// TestNobodyTakesCellsFromOthers: a policy that leaves out its worst cell is not ranked, and
// changes no other policy's figures.
func TestNobodyTakesCellsFromOthers(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "q", "1x", 40), rowstest.Row("a", "q", "2x", 20))
	table := mustBoard(t, rows).Tables[0]
	if len(table.Ranked) != 2 || table.Ranked[0].Policy != "p" || len(table.Unranked) != 1 || table.Unranked[0].Policy != "q" {
		t.Fatalf("ranked %+v, unranked %+v", table.Ranked, table.Unranked)
	}
	wantFigure(t, "p", table.Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
	wantFigure(t, "q on a", table.Unranked[0].Traces[0].XOpt, 1)
	rowstest.WantNote(t, table.Notes, "q lacks 1 cell: b 1x. Rank it with --where trace=a")
}

// TestOwnCellsAreNotPooled: cells of only one policy take nothing from the others, and are named.
func TestOwnCellsAreNotPooled(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "p", "8x", 9), rowstest.Row("a", "opt", "8x", 3))
	rows = append(rows, rowstest.Row("a", "q", "1x", 70), rowstest.Row("a", "q", "2x", 70), rowstest.Row("b", "q", "1x", 70))
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "p", table.Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
	rowstest.WantNote(t, table.Notes, "Not pooled, because only p of the ranked policies ran: a 8x")
}

// TestHowToRank: the filter in a note ranks the policy. No filter by trace exists if the policy
// lacks a capacity of each trace.
func TestHowToRank(t *testing.T) {
	rows := append(slices.DeleteFunc(rowstest.HandRows(), func(r result.Row) bool { return r.Trace == "b" }), rowstest.Row("a", "q", "2x", 25))
	rowstest.WantNote(t, mustBoard(t, rows).Tables[0].Notes, "q lacks 1 cell: a 1x. Rank it with --where capacity=2x")
	w, err := result.ParseWhere([]string{"capacity=2x"})
	fatal.If(t, err)
	if rows, err = w.Filter(rows); err != nil {
		t.Fatal(err)
	}
	if table := mustBoard(t, rows).Tables[0]; table.Ranked[0].Policy != "q" {
		t.Errorf("ranked %+v", table.Ranked)
	}
	// If OPT has no miss in a cell, a policy cannot lack that cell.
	rows = []result.Row{rowstest.Row("a", "opt", "1x", 0), rowstest.Row("a", "lru", "1x", 5)}
	rowstest.WantNote(t, mustBoard(t, rows).Tables[0].Notes, "lru is not ranked: none of its cells has a × OPT (it ran at a 1x)")
}

// TestFiguresByTraceAreOverCommonCells: an additional cell of two policies does not remove the
// trace's figures of the others.
func TestFiguresByTraceAreOverCommonCells(t *testing.T) {
	b := mustBoard(t, append(rowstest.HandRows(), rowstest.Row("a", "fifo", "1x", 80), rowstest.Row("a", "fifo", "2x", 40), rowstest.Row("a", "fifo", "8x", 9), rowstest.Row("a", "opt", "8x", 5)))
	table := b.Tables[0]
	for _, l := range slices.Concat(table.Ranked, table.Unranked) {
		want := map[string]float64{"p": math.Sqrt(1.875), "lru": math.Sqrt(3), "fifo": 2}[l.Policy] // 50/40 × 30/20, 60/40 × 40/20, 80/40 × 40/20
		wantFigure(t, l.Policy+" on a", l.Traces[0].XOpt, want)
	}
	rowstest.WantNote(t, table.TraceNotes(), "not all policies have these cells: a 8x.")
}

func TestLonelyPolicyDoesNotEmptyTheBoard(t *testing.T) {
	// q ran only at a cell of OPT.
	rows := append(rowstest.HandRows(), rowstest.Row("c", "q", "1x", 30), rowstest.Row("c", "opt", "1x", 20))
	table := mustBoard(t, rows).Tables[0]
	wantFigure(t, "p", table.Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
	if len(table.Unranked) != 1 || table.Unranked[0].Policy != "q" || table.Unranked[0].Pooled != nil {
		t.Errorf("unranked %+v", table.Unranked)
	}
	rowstest.WantNote(t, table.Notes, "Not ranked for lack of pooled cells: q. q lacks 3 cells (it ran at c 1x)")
}

func TestTies(t *testing.T) {
	rows := rowstest.HandRows()
	for _, r := range rowstest.HandRows() {
		if r.Policy == "p" {
			r.Policy = "twin"
			rows = append(rows, r)
		}
	}
	// 60/40 × 30/20 × 10/10 = 2.25 equals p's, from other misses: a tie. p's sum of misses in other
	// cells gives 46/40 × 30/20 × 16/10 = 2.76: no tie.
	rows = append(rows, rowstest.Row("a", "q", "1x", 60), rowstest.Row("a", "q", "2x", 30), rowstest.Row("b", "q", "1x", 10))
	rows = append(rows, rowstest.Row("a", "s", "1x", 46), rowstest.Row("a", "s", "2x", 30), rowstest.Row("b", "s", "1x", 16))
	var got []string
	for _, l := range mustBoard(t, rows).Tables[0].Ranked {
		got = append(got, l.Rank+" "+l.Policy)
	}
	if want := []string{"1= p", "1= q", "1= twin", "4 s", "5 lru"}; !slices.Equal(got, want) {
		t.Errorf("ranks %q, want %q", got, want)
	}
}

// A tie shares the rank of its first line, and more recall is better.
func TestRanks(t *testing.T) {
	for _, key := range []*Key{MissesKey, TimeKey, RecallKey} {
		ranking := Ranking{Key: key}
		for i, x := range []float64{4, 2, 3, 1, 2} {
			f := &Figures{ExactFigures: &ExactFigures{XOpt: &Figure{Value: x}, TPOT: &x}, LossyFigures: &LossyFigures{Recall: &Figure{Value: 5 - x}}}
			ranking.Ranked = append(ranking.Ranked, Line{Policy: string(rune('a' + i)), Pooled: f})
		}
		ranking.sort()
		var got []string
		for _, l := range ranking.Ranked {
			got = append(got, l.Rank+" "+l.Policy)
		}
		if want := []string{"1 d", "2= b", "2= e", "4 c", "5 a"}; !slices.Equal(got, want) {
			t.Errorf("by %s: %q, want %q", key.Name, got, want)
		}
	}
}

func TestKindsAreRankedApart(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lossy", "1x", 2), rowstest.Row("a", "bypasser", "1x", 30), rowstest.Row("a", "opt-bypass", "1x", 25), rowstest.Row("a", "bypasser", "2x", 25), rowstest.Row("b", "bypasser", "1x", 11))
	b := mustBoard(t, rows)
	if len(b.Tables) != 1 || b.Lossy == nil || len(b.Lossy.Unranked) != 1 {
		t.Fatalf("tables %+v, lossy %+v", b.Tables, b.Lossy)
	}
	exact := b.Tables[0]
	if exact.Ranked[0].Policy != "bypasser" || len(exact.Bounds) != 2 {
		t.Errorf("exact table %+v", exact)
	}
	if note := b.Footnotes[exact.Ranked[0].Notes[0]-1]; !strings.Contains(note, "opt-bypass bounds it") {
		t.Errorf("bypasser's footnote %q", note)
	}
}

func TestWindows(t *testing.T) {
	w := rowstest.Row("a", "window:2", "", 30)
	w.Options, w.ResidentMean, w.ResidentPeak = "2", 12.5, 20
	x := rowstest.Row("a", "window:10", "", 3)
	x.Options = "10"
	rows := append(rowstest.HandRows(), x, w, rowstest.Row("a", "lru", "peak:window:2", 24), rowstest.Row("a", "opt", "peak:window:2", 15))
	b := mustBoard(t, rows)
	if len(b.Windows) != 2 || b.Windows[0].Policy != "window:2" {
		t.Fatalf("windows %+v; want window:2 before window:10", b.Windows)
	}
	two, ten := b.Windows[0], b.Windows[1]
	wantFigure(t, "× LRU at its peak", two.Figures.XLRU, 30./24)
	wantFigure(t, "× OPT at its peak", two.Figures.XOpt, 2)
	if two.ResidentMean != 12.5 || two.ResidentPeak != 20 || ten.Figures.XLRU != nil {
		t.Errorf("windows %+v %+v", two, ten)
	}
	wantFigure(t, "the board without them", b.Tables[0].Ranked[0].Pooled.XOpt, math.Cbrt(2.25))
}

func TestFewPoliciesDoNotTakeCellsFromMany(t *testing.T) {
	// One of four policies lacks trace b's cell. Three are ranked on three cells.
	rows := append(rowstest.HandRows(), rowstest.Row("a", "q", "1x", 80), rowstest.Row("a", "q", "2x", 20))
	for _, r := range rowstest.HandRows() {
		if r.Policy == "p" {
			r.Policy = "twin"
			rows = append(rows, r)
		}
	}
	table := mustBoard(t, rows).Tables[0]
	if len(table.Common) != 3 || len(table.Ranked) != 3 || len(table.Unranked) != 1 || table.Unranked[0].Policy != "q" {
		t.Errorf("%d cells, %d ranked, unranked %+v", len(table.Common), len(table.Ranked), table.Unranked)
	}
	rowstest.WantNote(t, table.Notes, "q lacks 1 cell: b 1x. Rank it with --where trace=a")
}

// TestTwoThatShareACellAreRanked: p has the most cells, and no other policy has them. q and r share
// one.
func TestTwoThatShareACellAreRanked(t *testing.T) {
	rows := []result.Row{rowstest.Row("a", "opt", "8x", 5), rowstest.Row("a", "q", "8x", 6), rowstest.Row("a", "r", "8x", 7)}
	for _, capacity := range []string{"1x", "2x", "3x", "4x"} {
		rows = append(rows, rowstest.Row("a", "opt", capacity, 10), rowstest.Row("a", "p", capacity, 12))
	}
	table := mustBoard(t, rows).Tables[0]
	if len(table.Ranked) != 2 || table.Ranked[0].Policy != "q" || table.Ranked[1].Policy != "r" || len(table.Unranked) != 1 {
		t.Errorf("ranked %+v, unranked %+v", table.Ranked, table.Unranked)
	}
}

// TestNoRankAmongOneLossyMethod: the rule is the same as for exact policies.
func TestNoRankAmongOneLossyMethod(t *testing.T) {
	one := mustBoard(t, []result.Row{rowstest.LossyRow("a", "h2o", "1x", 30, 0.5)}).Lossy
	if len(one.Ranked) != 0 || len(one.Unranked) != 1 || one.Unranked[0].Pooled == nil {
		t.Errorf("%+v", one)
	}
	rowstest.WantNote(t, one.Notes, "h2o is not ranked: no other policy has its cells")
	apart := mustBoard(t, []result.Row{rowstest.LossyRow("a", "h2o", "1x", 30, 0.5), rowstest.LossyRow("a", "snapkv", "2x", 30, 0.5)}).Lossy
	if len(apart.Ranked) != 0 || len(apart.Unranked) != 2 {
		t.Errorf("%+v", apart)
	}
	rowstest.WantNote(t, apart.Notes, "Not ranked: no two policies have a trace and capacity in common")
}
