package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
)

const plotHeight = 15 * vg.Centimeter // of a panel

// curve is a policy's misses over capacity on one trace.
type curve struct {
	policy string
	bound  bool
	points plotter.XYs // x capacity ÷ K ascending, y misses ÷ demand
	ratios plotter.XYs // y × OPT, if OPT misses
}

// Curves draws the curves of a trace as SVG over capacity ÷ K, one line per policy, bounds dashed.
// The upper panel is × OPT, which separates policies. The lower panel is misses ÷ demand. If OPT
// has no miss or no rows, there is only the lower panel. Equal boards give equal bytes. A trace
// without a known capacity in entries is an error.
func Curves(w io.Writer, b *board.Board, trace string) error {
	curves := curvesOn(b, trace)
	if len(curves) == 0 {
		return fmt.Errorf("curves of trace %s: no cell with a known capacity in entries", trace)
	}
	scale, styles, legend := ratioScaleOf(curves), curveStyles(b), chart.NewLegend()
	ratios, shares := newPanel(curves), newPanel(curves)
	for _, c := range curves {
		line, marks, err := addCurve(shares, c.points, styles[c.policy])
		if err == nil && len(c.ratios) > 0 {
			_, _, err = addCurve(ratios, c.ratios, styles[c.policy])
		}
		if err != nil {
			return fmt.Errorf("curves of trace %s: %s: %w", trace, c.policy, err)
		}
		legend.Add(c.policy+scale.beyond(c), line, marks)
	}
	styleShares(shares, curves)
	panels := []*plot.Plot{shares}
	if scale.high > 0 {
		scale.style(ratios, curves)
		panels = []*plot.Plot{ratios, shares}
	}
	styleTitle(b, panels[0], trace)
	svg, err := chart.SVG(panels[0], &legend, plotHeight, b.Incomplete.Titled(b.LabelsOn(trace).Title("Misses over capacity: "+trace)), panels[1:]...)
	if err != nil {
		return fmt.Errorf("curves of trace %s: %w", trace, err)
	}
	_, err = w.Write(svg)
	return err
}

// addCurve draws points as a line with marks.
func addCurve(p *plot.Plot, points plotter.XYs, s curveStyle) (*plotter.Line, *plotter.Scatter, error) {
	line, marks, err := linePoints(points)
	if err != nil {
		return nil, nil, err
	}
	line.LineStyle, marks.GlyphStyle = s.line, s.mark
	p.Add(line, marks)
	return line, marks, nil
}

// curvesOn returns the lines of a trace in the order of the legend: highest miss ratio at its
// largest capacity first.
func curvesOn(b *board.Board, trace string) []curve {
	var curves []curve
	at := map[string]int{}
	for _, c := range b.Cells {
		if c.Trace != trace || c.CapacityOverK == nil || c.Figures.Demand == 0 {
			continue
		}
		i, ok := at[c.Policy]
		if !ok {
			i, at[c.Policy] = len(curves), len(curves)
			curves = append(curves, curve{policy: c.Policy, bound: c.Bound})
		}
		curves[i].points = append(curves[i].points, plotter.XY{X: *c.CapacityOverK, Y: text.Ratio(c.Figures.Misses, c.Figures.Demand)})
		if x := c.Figures.XOpt; x != nil && x.Value > 0 { // the axis has no 0
			curves[i].ratios = append(curves[i].ratios, plotter.XY{X: *c.CapacityOverK, Y: x.Value})
		}
	}
	byCapacity := func(p, q plotter.XY) int { return cmp.Compare(p.X, q.X) }
	for _, c := range curves {
		slices.SortStableFunc(c.points, byCapacity)
		slices.SortStableFunc(c.ratios, byCapacity)
	}
	slices.SortStableFunc(curves, func(a, b curve) int {
		return cmp.Compare(b.points[len(b.points)-1].Y, a.points[len(a.points)-1].Y)
	})
	return curves
}

// CurveTraces lists the traces with curves, by name.
func CurveTraces(b *board.Board) []string {
	var traces []string
	for _, t := range b.Traces {
		if len(curvesOn(b, t.Trace)) > 0 {
			traces = append(traces, t.Trace)
		}
	}
	return traces
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
