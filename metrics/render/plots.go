package render

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// CurveFigures are the figures that a curve can show over capacity, by name.
var CurveFigures = []string{"x-opt", "miss-ratio", "hit-rate", "x-lru"}

// curveFigures have the axis and the figure of each of CurveFigures.
var curveFigures = map[string]struct {
	axis string
	of   func(*board.Figures) *board.Figure
}{
	"x-opt":      {"misses ÷ OPT's", xOpt},
	"x-lru":      {"misses ÷ LRU's", xLRU},
	"hit-rate":   {"hit rate", hitRate},
	"miss-ratio": {"miss ratio", missRatio},
}

// missRatio is 1 − the hit rate, with its interval.
func missRatio(f *board.Figures) *board.Figure {
	if f.HitRate == nil {
		return nil
	}
	r := &board.Figure{Value: 1 - f.HitRate.Value}
	if h := f.HitRate; h.Low != nil && h.High != nil {
		r.Low, r.High = new(1-*h.High), new(1-*h.Low)
	}
	return r
}

// RankingFigure plots the figure that policies are ranked by, with intervals and the letters of the
// groups. chosen are the policies by name. If it is empty, the best ones and LRU are shown.
func RankingFigure(b *board.Board, chosen []string, view View) (figure.Drawing, error) {
	t, err := onlyRanking(b)
	if err != nil {
		return nil, err
	}
	lines := slices.DeleteFunc(contenders(t), func(l board.Line) bool { return l.Rank == "" })
	if len(chosen) > 0 {
		if lines, err = chooseLines(t.Ranked, chosen, view); err != nil {
			return nil, err
		}
	}
	return rankingDots(t, lines, view, func(l *board.Line, _ unit) string { return "  " + l.Letters }), nil
}

// CurveFigure plots one of CurveFigures over the capacity, pooled over the traces of the board.
// chosen are the policies by name. If it is empty, the best ones, LRU and OPT are shown, or the only
// one and OPT.
func CurveFigure(b *board.Board, name string, chosen []string, view View) (figure.Drawing, error) {
	t, err := onlyRanking(b)
	alone := err != nil && len(b.Tables) > 0 && b.Tables[0].Alone() // a curve needs no rank
	switch {
	case alone:
		t = &b.Tables[0]
	case err != nil:
		return nil, err
	case t.Key.Kind == board.LossyKind:
		return nil, fmt.Errorf("lossy policies have no %s: choose exact policies with --where lossy=false", name)
	}
	shown := contenders(t)
	if alone {
		shown = slices.DeleteFunc(t.Lines(), func(l board.Line) bool { return l.Pooled == nil })
	}
	if len(chosen) > 0 {
		if shown, err = chooseLines(t.Lines(), chosen, view); err != nil {
			return nil, err
		}
	}
	over := pooledOverK(b, t)
	short := view.PolicyNames(slice.Map(shown, func(l board.Line) string { return l.Policy }))
	var lines []figure.Line
	for _, l := range shown {
		line := figure.Line{Name: short[l.Policy], Bound: slices.ContainsFunc(t.Bounds, func(o board.Line) bool { return o.Policy == l.Policy })}
		for i, capacity := range t.Capacities {
			if x, ok := over[capacity]; ok && l.Capacities[i] != nil {
				addPoint(&line, x, curveFigures[name].of(l.Capacities[i]))
			}
		}
		lines = append(lines, line)
	}
	plot := overCapacity(name, lines)
	if plot == nil {
		return nil, fmt.Errorf("no capacity of the rows has a known size and a %s: replay with --capacity 1.5x,2x,4x", name)
	}
	return plot, nil
}

// roomy returns the values of a logarithmic axis whose labels have room: both ends, and those between
// at a distance.
func roomy(values []float64) (kept []float64) {
	first, last := values[0], values[len(values)-1]
	room := math.Pow(last/first, 1./9)
	for i, x := range values {
		if i == 0 || i == len(values)-1 || x/kept[len(kept)-1] >= room && last/x >= room {
			kept = append(kept, x)
		}
	}
	return kept
}

// interval returns a figure and the ends of its interval, which are equal to it without one. An
// interval without an upper end reaches to the figure.
func interval(f *board.Figure, scale float64) (value, low, high float64) {
	value = scale * f.Value
	low, high = value, value
	if f.Low != nil {
		low = scale * *f.Low
	}
	if f.High != nil {
		high = scale * *f.High
	}
	return value, low, high
}

// onlyRanking returns the ranking of exact policies, or that of lossy ones if there are no others.
func onlyRanking(b *board.Board) (*board.Ranking, error) {
	switch {
	case HasRankingPlot(b):
		return &b.Tables[0], nil
	case b.Lossy != nil && len(b.Lossy.Ranked) > 0:
		return b.Lossy, nil
	}
	return nil, fmt.Errorf("the rows rank no policy: replay at least two policies and opt at the same capacities")
}

// contenders returns the best ranked policies, LRU and OPT.
func contenders(t *board.Ranking) (lines []board.Line) {
	for i, l := range t.Lines() {
		if inFocus(t, i, l.Policy) {
			lines = append(lines, l)
		}
	}
	return lines
}

// inFocus reports whether figures show the policy of the i-th line if the user names none.
func inFocus(t *board.Ranking, i int, policy string) bool {
	return i < min(focused, len(t.Ranked)) || policy == board.OptPolicy || policy == lruPolicy
}

// Contenders returns the policies that figures of the board show if the user names none.
func Contenders(b *board.Board) (policies []string) {
	t, err := onlyRanking(b)
	if err != nil {
		return nil
	}
	return slice.Map(contenders(t), func(l board.Line) string { return l.Policy })
}

// chooseLines returns the lines of policies that the user names, in the user's order. A name may leave
// out options, and "all" names all.
func chooseLines(lines []board.Line, chosen []string, view View) (found []board.Line, err error) {
	if len(chosen) == 1 && strings.EqualFold(chosen[0], "all") {
		return slice.Filter(lines, func(l board.Line) bool { return l.Pooled != nil }), nil
	}
	short := view.PolicyNames(slice.Map(lines, func(l board.Line) string { return l.Policy }))
	known := slice.Map(lines, func(l board.Line) names.Name {
		base, _, _ := strings.Cut(l.Policy, ":")
		return names.Name{Name: l.Policy, Aliases: []string{short[l.Policy], base}}
	})
	for _, text := range chosen {
		name, err := names.Find("policy in the rows", text, known)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(lines, func(l board.Line) bool { return l.Policy == name })
		if lines[i].Pooled == nil {
			return nil, fmt.Errorf("policy %s lacks a trace or capacity that the others have: choose rows with --where", name)
		}
		found = append(found, lines[i])
	}
	return found, nil
}

// pooledOverK returns the mean capacity ÷ K of the common cells of each capacity of a ranking. It
// leaves out a capacity if the size of a cell is unknown. Cells of lossy policies state none, but
// those of OPT at the same place do.
func pooledOverK(b *board.Board, t *board.Ranking) map[string]float64 {
	known := map[board.CellRef]*float64{}
	for _, c := range b.Cells {
		if c.ExactCell != nil && c.CapacityOverK != nil {
			known[c.CellRef] = c.CapacityOverK
		}
	}
	means, cells := map[string]float64{}, map[string]float64{}
	for _, r := range t.Common {
		x := math.NaN()
		if k := known[r]; k != nil {
			x = *k
		}
		means[r.Capacity], cells[r.Capacity] = means[r.Capacity]+x, cells[r.Capacity]+1
	}
	for capacity, n := range cells {
		if means[capacity] /= n; math.IsNaN(means[capacity]) {
			delete(means, capacity)
		}
	}
	return means
}

// HeatFigure plots the hit rate, or the misses, of each layer and head of rows by stream or layer. The
// rows have one policy and one capacity. Repeated rows count once, and so do layers with rows at several
// levels of detail. It refuses rows that contradict each other.
func HeatFigure(rows []result.Row, misses bool) (figure.Drawing, error) {
	var finest []*result.Row
	for _, g := range result.GroupBy(result.Pointers(rows), func(r *result.Row) string { return r.Trace }) {
		of, err := finestRows(g.Rows)
		if err != nil {
			return nil, err
		}
		finest = append(finest, of...)
	}
	h := newPageHeat(finest)
	d := &figure.Heat{X: "layer", Y: "head", Scale: "hit rate"}
	if misses {
		d.Scale = "misses"
	}
	d.Columns = slice.Map(h.Layers, func(layer int32) string { return fmt.Sprint(layer) })
	for j, head := range h.Heads {
		name := fmt.Sprint(head)
		if head < 0 {
			name = "all"
		}
		d.Rows = append(d.Rows, name)
		var values []float64
		for i := range h.Layers {
			at, v := i*len(h.Heads)+j, math.NaN()
			switch {
			case h.Demand[at] == 0:
			case misses:
				v = float64(h.Misses[at])
			default:
				v = 1 - float64(h.Misses[at])/float64(h.Demand[at])
			}
			values = append(values, v)
		}
		d.Values = append(d.Values, values)
	}
	return d, nil
}
