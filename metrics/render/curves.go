package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
)

const (
	curvesWidth = 160 // millimetres
	// mostMarks is the number of points of a curve with markers. A denser curve is a bare line.
	mostMarks = 16
)

// Curves draws the curves of a trace as SVG over capacity ÷ K, one line per policy. The upper panel
// is × OPT, which separates policies. The lower panel is the miss ratio. If OPT has no miss or no
// rows, there is only the lower panel. Equal boards give equal bytes. A trace without a known
// capacity in entries is an error.
func Curves(w io.Writer, b *board.Board, trace string, view View) error {
	var panels figure.Panels
	for _, name := range []string{"x-opt", "miss-ratio"} {
		if lines := curvesOn(b, trace, name, view); lines != nil {
			panels = append(panels, lines)
		}
	}
	if panels == nil {
		return fmt.Errorf("curves of trace %s: no cell with a known capacity in entries", trace)
	}
	info := b.Traces[slices.IndexFunc(b.Traces, func(t board.TraceInfo) bool { return t.Trace == trace })]
	title := fmt.Sprintf("Misses over capacity: %s (K = %d, warm-up %s)", trace, info.TopK, info.Warmup)
	title = b.Incomplete.Titled(info.Labels.Title(title))
	if err := writeFigure(w, figure.Figure{Drawing: panels, Title: title, Size: figure.Size{Width: curvesWidth}}); err != nil {
		return fmt.Errorf("curves of trace %s: %w", trace, err)
	}
	return nil
}

// curvesOn plots one of CurveFigures on a trace for each policy of the board, or returns nil if the
// trace has no cell with it. A policy without points keeps its place, so that policies look the same
// on all traces.
func curvesOn(b *board.Board, trace, name string, view View) *figure.Lines {
	cells := slice.Filter(b.Cells, func(c board.CellLine) bool { return c.ExactCell != nil })
	policies := text.Union(slice.Map(cells, func(c board.CellLine) string { return c.Policy }))
	short := view.PolicyNames(policies)
	lines := slice.Map(policies, func(p string) figure.Line { return figure.Line{Name: short[p]} })
	for _, c := range cells {
		at, _ := slices.BinarySearch(policies, c.Policy)
		l := &lines[at]
		l.Bound = c.Bound
		if f := curveFigures[name].of(c.Figures); c.Trace == trace && c.CapacityOverK != nil && f != nil {
			addPoint(l, *c.CapacityOverK, &board.Figure{Value: f.Value}) // the lines are too many for intervals
		}
		l.Bare = len(l.Points) > mostMarks
	}
	return overCapacity(name, lines)
}

// addPoint adds a figure at a capacity ÷ K to a line, unless it is nil.
func addPoint(l *figure.Line, x float64, f *board.Figure) {
	if f != nil {
		p := figure.Point{X: x}
		p.Y, p.Low, p.High = interval(f, 1)
		l.Points = append(l.Points, p)
	}
}

// overCapacity returns the plot of one of CurveFigures over capacity ÷ K, or nil without a point. Only
// values that are worse if they are higher may leave it.
func overCapacity(name string, lines []figure.Line) *figure.Lines {
	plot := &figure.Lines{X: "capacity of a stream ÷ K", Y: curveFigures[name].axis, Clip: name != "hit-rate", Lines: lines}
	for _, l := range lines {
		slices.SortStableFunc(l.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
		for _, p := range l.Points {
			plot.Ticks = append(plot.Ticks, p.X)
		}
	}
	slices.Sort(plot.Ticks)
	if plot.Ticks = slices.Compact(plot.Ticks); plot.Ticks == nil {
		return nil
	}
	plot.LogX = plot.Ticks[len(plot.Ticks)-1]/plot.Ticks[0] > 1.5
	plot.Ticks = roomy(plot.Ticks)
	return plot
}

// CurveTraces lists the traces with curves, by name.
func CurveTraces(b *board.Board) []string {
	traces := slice.Map(b.Traces, func(t board.TraceInfo) string { return t.Trace })
	return slice.Filter(traces, func(t string) bool { return curvesOn(b, t, "miss-ratio", View{}) != nil })
}

// CurveNames returns a file name for the curves of each trace: "curves-a.svg" for a.parquet,
// "curves-a-cold.svg" with the suffix "-cold". It adds a number if another trace or the list has
// the name.
func CurveNames(b *board.Board, suffix string, taken []string) map[string]string {
	names := map[string]string{}
	taken = slices.Clone(taken)
	for _, trace := range CurveTraces(b) {
		stem := files.SafeName("curves-"+strings.TrimSuffix(trace, ".parquet")) + suffix
		name := stem + ".svg"
		isTaken := func(other string) bool { return strings.EqualFold(other, name) } // one file on some systems
		for n := 2; slices.ContainsFunc(taken, isTaken); n++ {
			name = fmt.Sprintf("%s-%d.svg", stem, n)
		}
		taken = append(taken, name)
		names[trace] = name
	}
	return names
}
