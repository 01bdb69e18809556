package render

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette is that of Okabe and Ito (Color Universal Design, 2008), made to be told
// apart without colour vision, less its yellow, which is faint on white.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

// glyphs and dashes repeat at other lengths than the palette, so that no two of the
// first 24 policies look alike.
var (
	glyphs = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	}
	dashes = [][]vg.Length{nil, {7, 2}, {2, 2}, {8, 2, 2, 2}}
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	grey   = color.RGBA{0x77, 0x77, 0x77, 0xff}
	faint  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// curveStyle is how a policy is drawn, the same on all traces of a board.
type curveStyle struct {
	line draw.LineStyle
	mark draw.GlyphStyle
}

// curveStyles gives every policy of the board its look: OPT dashed black, other bounds
// dashed grey, contenders by name from the palette.
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
	for i, p := range result.Unite(contenders, nil) {
		styles[p] = newStyle(palette[i%len(palette)], glyphs[i%len(glyphs)], dashes[i/len(palette)%len(dashes)])
	}
	for i, p := range result.Unite(bounds, nil) {
		styles[p] = newStyle(grey, glyphs[(i+3)%len(glyphs)], []vg.Length{2, 3})
	}
	styles[board.OptPolicy] = newStyle(ink, draw.CircleGlyph{}, []vg.Length{5, 3})
	return styles
}

func newStyle(c color.Color, glyph draw.GlyphDrawer, dash []vg.Length) curveStyle {
	return curveStyle{
		line: draw.LineStyle{Color: c, Width: vg.Points(1.6), Dashes: dash},
		mark: draw.GlyphStyle{Color: c, Radius: vg.Points(2.8), Shape: glyph},
	}
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

func newLegend() plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font, l.TextStyle.Color = sans(10), ink
	l.ThumbnailWidth = 9 * vg.Millimeter
	l.Padding = 1.2 * vg.Millimeter
	l.YPosition = draw.PosCenter
	return l
}

// styleTitle titles the uppermost panel.
func styleTitle(b *board.Board, p *plot.Plot, trace string) {
	info := b.Traces[slices.IndexFunc(b.Traces, func(t board.TraceInfo) bool { return t.Trace == trace })]
	p.Title.Text = b.Incomplete.Titled(info.Labels.Title(fmt.Sprintf("%s   (K = %d, warm-up %s)", trace, info.TopK, info.Warmup)))
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = sans(min(13, 13*60/float64(len(p.Title.Text)))), ink
	p.Title.Padding = 4 * vg.Millimeter
}

// newPanel is a plot with grid and x axis: logarithmic where capacities span a factor of
// 1.5, with a tick at every capacity, labelled where there is room.
func newPanel(curves []curve) *plot.Plot {
	p := plot.New()
	p.X.Label.Text = "capacity of a stream ÷ K"
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = sans(11), ink
		axis.Label.Padding = 2 * vg.Millimeter
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(10), ink
		axis.Color, axis.Tick.Color = grey, grey
		axis.Padding = 0
	}
	sizes, _ := extent(curves)
	low, high := sizes[0], sizes[len(sizes)-1]
	if low > 0 && high/low >= 1.5 {
		p.X.Scale = plot.LogScale{}
		p.X.Label.Text += " (log scale)"
	}
	p.X.Tick.Marker = plot.ConstantTicks(sizeTicks(sizes))
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
	return p
}

// styleShares makes y misses ÷ demand, from 0.
func styleShares(p *plot.Plot, curves []curve) {
	spanSizes(p, curves)
	_, top := extent(curves)
	p.Y.Label.Text = "miss ratio (misses ÷ demand)"
	p.Y.Min, p.Y.Max = 0, max(top*1.06, 1e-9)
	p.Y.Tick.Marker = plot.ConstantTicks(roundTicks(0, p.Y.Max))
}

// spanSizes has the x axis end a little beyond the capacities.
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

// sizeTicks marks all capacities, ascending, and labels both ends and between them those
// that stand far enough from the one labelled before and from the last; of many capacities
// only those that readers know.
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

// roundTicks are at most seven ticks from low to high, in steps of 1, 2 or 5 × 10ⁿ.
func roundTicks(low, high float64) []plot.Tick {
	unit := math.Pow10(int(math.Floor(math.Log10(high-low))) - 1)
	step := unit
	for _, multiple := range []float64{1, 2, 5, 10, 20} {
		if step = multiple * unit; (high-low)/step < 7 {
			break
		}
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'f', decimals, 64)})
	}
	return ticks
}
