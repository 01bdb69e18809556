package metrics

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the plot; the legend stands right of it and makes the picture as large as it
// needs.
const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 12 * vg.Centimeter
	margin     = 4 * vg.Millimeter

	// fallbackWidth leaves room for fonts wider than the one that is measured.
	fallbackWidth = 1.15
)

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
	return writeSVG(w, p, legend, trace)
}

// writeSVG draws the plot and, right of it, the legend.
func writeSVG(w io.Writer, p *plot.Plot, legend plot.Legend, title string) error {
	legendSize := legend.Rectangle(draw.New(vgsvg.New(plotWidth, plotHeight))).Size()
	width := plotWidth + fallbackWidth*legendSize.X + 4*margin
	height := max(plotHeight, legendSize.Y+8*margin)
	svg := vgsvg.New(width, height)
	svg.SetColor(color.White)
	svg.Fill(rectangle(width, height))
	whole := draw.Crop(draw.New(svg), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(whole, 0, plotWidth-width+2*margin, 0, 0))
	legend.Draw(draw.Crop(whole, plotWidth+1.5*margin, 0, 0, -3*margin))
	var out bytes.Buffer
	if _, err := svg.WriteTo(&out); err != nil {
		return fmt.Errorf("curves: %w", err)
	}
	_, err := io.WriteString(w, portable(out.String(), title))
	return err
}

func rectangle(w, h vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{})
	p.Line(vg.Point{X: w})
	p.Line(vg.Point{X: w, Y: h})
	p.Line(vg.Point{Y: h})
	p.Close()
	return p
}

// portable names fallbacks of the same metrics for readers without the Liberation
// fonts, and gives the picture a title for those who cannot see it.
func portable(svg, title string) string {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	head, body, _ := strings.Cut(svg, ">\n<g")
	_, head, _ = strings.Cut(head, "<svg")
	return fmt.Sprintf("<svg%s>\n<title>Miss ratio over capacity: %s</title>\n<g%s", head, escapeXML(title), body)
}

func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
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
