package render

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
)

// glyphs repeat at another length than chart.Palette, so that no two of the first 24 policies look
// alike.
var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
	draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
}

// curveStyle is the style of a policy, the same on all traces of a board.
type curveStyle struct {
	line draw.LineStyle
	mark draw.GlyphStyle
}

// curveStyles gives every policy of the board its style: OPT dashed black, other bounds dashed
// grey, contenders by name from the palette.
func curveStyles(b *board.Board) map[string]curveStyle {
	var contenders, bounds []string
	for _, c := range b.Cells {
		if c.Bound {
			bounds = append(bounds, c.Policy)
		} else {
			contenders = append(contenders, c.Policy)
		}
	}
	styles := map[string]curveStyle{}
	for i, p := range text.Union(contenders) {
		styles[p] = newStyle(chart.Palette[i%len(chart.Palette)], glyphs[i%len(glyphs)], chart.Dashes[i/len(chart.Palette)%len(chart.Dashes)])
	}
	for i, p := range text.Union(bounds) {
		styles[p] = newStyle(chart.Grey, glyphs[(i+3)%len(glyphs)], []vg.Length{2, 3})
	}
	styles[board.OptPolicy] = newStyle(chart.Ink, draw.CircleGlyph{}, []vg.Length{5, 3})
	return styles
}

func newStyle(c color.Color, glyph draw.GlyphDrawer, dash []vg.Length) curveStyle {
	return curveStyle{
		line: draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dash},
		mark: draw.GlyphStyle{Color: c, Radius: vg.Points(2.8), Shape: glyph},
	}
}

// mostMarks is the number of marked points of a curve. A denser curve is drawn as a line, with
// marks only to distinguish it.
const mostMarks = 16

// linePoints is plotter.NewLinePoints with marks at some points of a dense curve: those at familiar
// capacities.
func linePoints(points plotter.XYs) (*plotter.Line, *plotter.Scatter, error) {
	sizes := slice.Map(points, func(p plotter.XY) float64 { return p.X })
	known := knownSizes(sizes)
	marked := slice.Filter(points, func(p plotter.XY) bool { return slices.Contains(known, p.X) })
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, nil, err
	}
	marks, err := plotter.NewScatter(plotter.XYs(marked))
	return line, marks, err
}

// knownSizes returns all of a few capacities ÷ K. From many it picks powers of two and 1.5 times
// them. If these are too few, it returns as many as there is room for.
func knownSizes(sizes []float64) []float64 {
	if len(sizes) <= mostMarks {
		return sizes
	}
	known := slice.Filter(sizes, func(x float64) bool { return isPowerOfTwo(x) || isPowerOfTwo(x/1.5) })
	if len(known) >= 4 {
		return known
	}
	known = known[:0]
	for i := range mostMarks {
		known = append(known, sizes[i*(len(sizes)-1)/(mostMarks-1)])
	}
	return known
}

func isPowerOfTwo(x float64) bool {
	fraction, _ := math.Frexp(x)
	return fraction == 0.5
}

// styleTitle titles the uppermost panel.
func styleTitle(b *board.Board, p *plot.Plot, trace string) {
	info := b.Traces[slices.IndexFunc(b.Traces, func(t board.TraceInfo) bool { return t.Trace == trace })]
	p.Title.Text = b.Incomplete.Titled(info.Labels.Title(fmt.Sprintf("%s   (K = %d, warm-up %s)", trace, info.TopK, info.Warmup)))
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = chart.Sans(min(13, 13*60/float64(len(p.Title.Text)))), chart.Ink
	p.Title.Padding = 4 * vg.Millimeter
}

// newPanel returns a plot with grid and x axis, with a tick at every capacity and labels if there
// is room. The axis is logarithmic if capacities span a factor of 1.5.
func newPanel(curves []curve) *plot.Plot {
	p := plot.New()
	p.X.Label.Text = "capacity of a stream ÷ K"
	chart.StyleAxes(p)
	sizes, _ := extent(curves)
	low, high := sizes[0], sizes[len(sizes)-1]
	if low > 0 && high/low >= 1.5 {
		p.X.Scale = plot.LogScale{}
		p.X.Label.Text += " (log scale)"
	}
	p.X.Tick.Marker = plot.ConstantTicks(sizeTicks(sizes))
	p.Add(chart.Grid())
	return p
}

// styleShares scales y as misses ÷ demand, from 0.
func styleShares(p *plot.Plot, curves []curve) {
	spanSizes(p, curves)
	_, top := extent(curves)
	p.Y.Label.Text = "miss ratio (misses ÷ demand)"
	p.Y.Min, p.Y.Max = 0, max(top*1.06, 1e-9)
	p.Y.Tick.Marker = plot.ConstantTicks(chart.RoundTicks(0, p.Y.Max))
}

// spanSizes extends the x axis a little beyond the capacities.
func spanSizes(p *plot.Plot, curves []curve) {
	sizes, _ := extent(curves)
	low, high := sizes[0], sizes[len(sizes)-1]
	p.X.Min, p.X.Max = low/1.06, high*1.06
	if low <= 0 || high/low < 1.5 {
		p.X.Min, p.X.Max = low-0.1*max(high-low, 1), high+0.1*max(high-low, 1)
	}
}

// extent returns the distinct capacities, ascending, and the highest miss ratio.
func extent(curves []curve) (sizes []float64, top float64) {
	for _, c := range curves {
		for _, p := range c.points {
			sizes, top = append(sizes, p.X), max(top, p.Y)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), top
}

// sizeTicks marks all capacities, which are ascending. It labels both ends, and those between with
// enough distance from the previous label and from the last. If there are many, it labels only
// familiar ones.
func sizeTicks(sizes []float64) []plot.Tick {
	var ticks []plot.Tick
	known := knownSizes(sizes)
	first, end := math.Log(sizes[0]), math.Log(sizes[len(sizes)-1])
	room := (end - first) / 14
	last := math.Inf(-1)
	for i, x := range sizes {
		t, at := plot.Tick{Value: x}, math.Log(x)
		if i == 0 || i == len(sizes)-1 || slices.Contains(known, x) && at-last >= room && end-at >= room {
			t.Label, last = strconv.FormatFloat(x, 'g', 3, 64), at
		}
		ticks = append(ticks, t)
	}
	return ticks
}

const (
	// mostAbove is the factor beyond the worst × OPT of the median contender that the axis reaches.
	// Much worse contenders then do not compress the others.
	mostAbove = 1.5
	// mostBelow is the share of OPT's ratio, or of a better contender's, down to which the axis
	// reaches for bounds.
	mostBelow = 0.95
)

// ratioScale is the drawn range of × OPT, zero if there is none.
type ratioScale struct{ low, high float64 }

// ratioScaleOf fits the range to the contenders, or to the bounds if there are none.
func ratioScaleOf(curves []curve) ratioScale {
	var all, worst []float64
	least := 1.0
	for _, c := range curves {
		if len(c.ratios) == 0 {
			continue
		}
		low, high := span(c.ratios)
		all = append(all, low, high)
		if !c.bound {
			worst, least = append(worst, high), min(least, low)
		}
	}
	if all == nil {
		return ratioScale{}
	}
	s := ratioScale{max(slices.Min(all), mostBelow*least), slices.Max(all)}
	if slices.Sort(worst); len(worst) > 0 {
		s.high = min(s.high, mostAbove*worst[len(worst)/2])
	}
	s.low, s.high = s.low/1.03, max(s.high, 1)*1.03 // room for marks
	return s
}

// span returns the least and the largest y.
func span(points plotter.XYs) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		low, high = min(low, p.Y), max(high, p.Y)
	}
	return low, high
}

// beyond returns the legend's remark that a curve leaves the scale.
func (s ratioScale) beyond(c curve) string {
	if s.high == 0 || len(c.ratios) == 0 {
		return ""
	}
	switch low, high := span(c.ratios); {
	case high > s.high:
		return fmt.Sprintf(" (off the scale, to %.3g × OPT)", high)
	case low < s.low:
		return fmt.Sprintf(" (off the scale, to %.2g × OPT)", low)
	}
	return ""
}

// style scales y as × OPT over the range, logarithmically.
func (s ratioScale) style(p *plot.Plot, curves []curve) {
	spanSizes(p, curves)
	p.Y.Label.Text = "× OPT (misses ÷ OPT's, log scale)"
	p.Y.Min, p.Y.Max, p.Y.Scale = s.low, s.high, plot.LogScale{}
	p.Y.Tick.Marker = plot.ConstantTicks(chart.LogTicks(s.low, s.high, 18))
}
