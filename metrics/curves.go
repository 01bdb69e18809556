package metrics

import (
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/kvreplay/kvreplay/metrics/chart"
)

const plotHeight = 12 * vg.Centimeter

// curve is a policy's miss ratio over capacity on one trace.
type curve struct {
	policy string
	points plotter.XYs // x capacity ÷ K ascending, y misses ÷ demand
}

// RenderCurves draws the miss-ratio curves of a trace as SVG: misses ÷ demand over
// capacity ÷ K, one line per policy, bounds dashed. Equal boards give equal bytes. A
// trace without a cell whose capacity in entries is known is an error.
func (b *Board) RenderCurves(w io.Writer, trace string) error {
	curves := b.curves(trace)
	if len(curves) == 0 {
		return fmt.Errorf("curves of trace %s: no cell with a known capacity in entries", trace)
	}
	p := plot.New()
	b.styleAxes(p, trace, curves)
	legend := newLegend()
	styles := b.styles()
	for _, c := range curves {
		line, marks, err := linePoints(c.points)
		if err != nil {
			return fmt.Errorf("curves of trace %s: %s: %w", trace, c.policy, err)
		}
		line.LineStyle, marks.GlyphStyle = styles[c.policy].line, styles[c.policy].mark
		p.Add(line, marks)
		legend.Add(c.policy, line, marks)
	}
	svg, err := chart.SVG(p, &legend, plotHeight, "Miss ratio over capacity: "+trace)
	if err != nil {
		return fmt.Errorf("curves of trace %s: %w", trace, err)
	}
	_, err = w.Write(svg)
	return err
}

// curves collects the lines of a trace, highest miss ratio at its largest capacity
// first, as the legend lists them.
func (b *Board) curves(trace string) []curve {
	var curves []curve
	at := map[string]int{}
	for _, c := range b.Cells {
		if c.Trace != trace || c.CapacityOverK == nil || c.Figures.Demand == 0 {
			continue
		}
		i, ok := at[c.Policy]
		if !ok {
			i, at[c.Policy] = len(curves), len(curves)
			curves = append(curves, curve{policy: c.Policy})
		}
		curves[i].points = append(curves[i].points, plotter.XY{X: *c.CapacityOverK, Y: ratio(c.Figures.Misses, c.Figures.Demand)})
	}
	for _, c := range curves {
		slices.SortStableFunc(c.points, func(p, q plotter.XY) int { return compareFloat(p.X, q.X) })
	}
	slices.SortStableFunc(curves, func(a, b curve) int {
		return compareFloat(b.points[len(b.points)-1].Y, a.points[len(a.points)-1].Y)
	})
	return curves
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
