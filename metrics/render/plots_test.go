package render

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// A ranking shows the board's figures with their intervals and letters, and the optimum as a line.
func TestRankingFigure(t *testing.T) {
	b := mustBoard(t, rowstest.LetteredRows())
	d, err := RankingFigure(b, nil, View{})
	fatal.If(t, err)
	dots := d.(*figure.Dots)
	ranked := b.Tables[0].Ranked
	if len(dots.Rows) != len(ranked) || len(dots.Marks) != 1 || dots.Marks[0].Value != 1 {
		t.Fatalf("%+v", dots)
	}
	for i, row := range dots.Rows {
		f := ranked[i].Pooled.XOpt
		if row.Name != ranked[i].Policy || row.Value != f.Value || row.Low != *f.Low || row.High != *f.High || !strings.HasSuffix(row.Label, "  "+ranked[i].Letters) {
			t.Errorf("row %d: %+v, the board has %+v %v", i, row, ranked[i], f)
		}
	}
	d, err = RankingFigure(b, []string{"worse", "BEST"}, View{})
	fatal.If(t, err)
	if rows := d.(*figure.Dots).Rows; len(rows) != 2 || rows[0].Name != "worse" || rows[1].Name != "best" {
		t.Errorf("%+v", rows)
	}
	if _, err := RankingFigure(b, []string{"wors"}, View{}); err == nil || !strings.Contains(err.Error(), "did you mean worse") {
		t.Errorf("an unknown policy: %v", err)
	}
	if _, err := RankingFigure(mustBoard(t, rowstest.HandRows()[:1:1]), nil, View{}); err == nil {
		t.Error("a board without a ranking has a figure")
	}
}

// A curve has a point for each capacity, in ascending order, with the pooled figures of the board.
func TestCurveFigure(t *testing.T) {
	b := mustBoard(t, rowstest.Synthetic())
	table := b.Tables[0]
	for _, name := range CurveFigures {
		d, err := CurveFigure(b, name, []string{"all"}, View{})
		fatal.If(t, err)
		lines := d.(*figure.Lines).Lines
		if clip := d.(*figure.Lines).Clip; clip == (name == "hit-rate") {
			t.Errorf("%s: clip %v, but only bad values may leave the axis", name, clip)
		}
		if len(lines) != len(table.Lines()) {
			t.Fatalf("%s: %d lines of %d policies", name, len(lines), len(table.Lines()))
		}
		for i, l := range table.Lines() {
			if lines[i].Name != l.Policy || len(lines[i].Points) != len(table.Capacities) {
				t.Fatalf("%s: %+v, expected %s at %v", name, lines[i], l.Policy, table.Capacities)
			}
			if !slices.IsSortedFunc(lines[i].Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) }) {
				t.Errorf("%s: %s is not ascending", name, l.Policy)
			}
			p, f := lines[i].Points[0], l.Capacities[0]
			want := map[string]float64{"x-opt": f.XOpt.Value, "x-lru": f.XLRU.Value, "hit-rate": f.HitRate.Value, "miss-ratio": 1 - f.HitRate.Value}[name]
			if p.Y != want || p.Low > p.Y || p.High < p.Y {
				t.Errorf("%s: %s begins at %+v, the board has %g", name, l.Policy, p, want)
			}
		}
	}
	d, err := CurveFigure(b, "x-opt", nil, View{})
	fatal.If(t, err)
	shown := slice.Map(d.(*figure.Lines).Lines, func(l figure.Line) string { return l.Name })
	for _, want := range append(slice.Map(table.Ranked[:min(focused, len(table.Ranked))], func(l board.Line) string { return l.Policy }), "opt") {
		if !slices.Contains(shown, want) {
			t.Errorf("%v lacks %s", shown, want)
		}
	}
}

// Layers are columns and heads rows. Rows of several requests add up.
func TestHeatFigure(t *testing.T) {
	var rows []result.Row
	for request, misses := range map[string]int64{"a": 10, "b": 30} {
		rows = append(rows, rowstest.PartRow(rowstest.Row("t", "lru", "2x", 0), request, 3, 0, 1, misses), rowstest.PartRow(rowstest.Row("t", "lru", "2x", 0), request, 5, 1, 1, misses/2))
	}
	d, err := HeatFigure(rows, true)
	fatal.If(t, err)
	h := d.(*figure.Heat)
	if !slices.Equal(h.Columns, []string{"3", "5"}) || !slices.Equal(h.Rows, []string{"0", "1"}) || h.Values[0][0] != 40 || h.Values[1][1] != 20 || !math.IsNaN(h.Values[0][1]) {
		t.Errorf("%+v", h)
	}
	d, err = HeatFigure(rows, false)
	fatal.If(t, err)
	demand := float64(rows[0].Demand)
	if got := d.(*figure.Heat).Values[0][0]; math.Abs(got-(1-40/(2*demand))) > 1e-12 {
		t.Errorf("hit rate %g with 40 misses of 2 × %g", got, demand)
	}
}
