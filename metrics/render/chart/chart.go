// Package chart draws lines and bars as SVG: the plots of cards and reports.
// Equal charts give equal bytes.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/kvreplay/kvreplay/internal/printable"
)

const (
	chartWidth  = 16 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	barHeight   = 5.5 * vg.Millimeter // of a bar's row
	margin      = 4 * vg.Millimeter
	// mostLines is the number of lines of a chart. Readers cannot distinguish more.
	mostLines = 24
)

// Palette is that of Okabe and Ito (Color Universal Design, 2008), designed for readers without
// colour vision. It omits yellow, which is faint on white.
var Palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

var (
	// dashes distinguish lines of one colour.
	dashes = [][]vg.Length{nil, {7, 2}, {2, 2}, {8, 2, 2, 2}}
	// Ink is the colour of text, Grey that of axes, Faint that of grids.
	Ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Grey  = color.RGBA{0x77, 0x77, 0x77, 0xff}
	Faint = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// Chart is lines over x, or rows of bars.
type Chart struct {
	Title, X, Y string
	Lines       []Line
	Log         bool // x is logarithmic
	Open        bool // y ends above the data, not at 1
	Ticks       plot.ConstantTicks
	Bars        []Bar
	Series      []string // names of a bar's values
}

// Ticks are marks of an axis at some values.
func Ticks(values ...float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}

// Line is a curve. Charts show the first 24.
type Line struct {
	Name   string
	Points plotter.XYs
}

// Bar is a row of values, one per series.
type Bar struct {
	Name   string
	Values []float64
}

// Empty reports whether the chart has no data.
func (c *Chart) Empty() bool {
	return !slices.ContainsFunc(c.Lines, func(l Line) bool { return len(l.Points) > 0 }) && len(c.Bars) == 0
}

// Draw returns the chart as SVG.
func (c *Chart) Draw() ([]byte, error) {
	p := plot.New()
	c.style(p)
	legend := newLegend()
	height := vg.Length(chartHeight)
	var err error
	if len(c.Bars) > 0 {
		height = barHeight*vg.Length(len(c.Bars)*len(c.Series)) + 3*vg.Centimeter
		err = c.addBars(p, &legend)
	} else {
		err = c.addLines(p, &legend)
	}
	if err != nil {
		return nil, err
	}
	return drawn(p, &legend, height, c.Title)
}

// Sans returns the font of all texts. size is in points.
func Sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

// newLegend returns an empty legend.
func newLegend() plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font, l.TextStyle.Color = Sans(10), Ink
	l.ThumbnailWidth, l.Padding, l.YPosition = 9*vg.Millimeter, 1.2*vg.Millimeter, draw.PosCenter
	return l
}

// Grid returns the grid behind the lines.
func Grid() *plotter.Grid {
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = Faint, Faint
	return grid
}

// style gives a plot its texts, fonts and colours.
func (c *Chart) style(p *plot.Plot) {
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.TextStyle.Font, p.Title.TextStyle.Color, p.Title.Padding = Sans(13), Ink, margin
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color, axis.Label.Padding = Sans(11), Ink, margin/2
		axis.Tick.Label.Font, axis.Tick.Label.Color = Sans(10), Ink
		axis.Color, axis.Tick.Color, axis.Padding = Grey, Grey, 0
	}
	p.Add(Grid())
}

// shares are ticks from 0 to 1.
var shares = Ticks(0, 0.2, 0.4, 0.6, 0.8, 1)

func (c *Chart) addLines(p *plot.Plot, legend *plot.Legend) error {
	for i, l := range c.Lines[:min(len(c.Lines), mostLines)] {
		drawn, err := plotter.NewLine(l.Points)
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		drawn.LineStyle = draw.LineStyle{Color: Palette[i%len(Palette)], Width: vg.Points(1.6), Dashes: dashes[i/len(Palette)%len(dashes)]}
		p.Add(drawn)
		legend.Add(l.Name, drawn)
	}
	if n := len(c.Lines) - mostLines; n > 0 {
		legend.Add(fmt.Sprintf("… and %d more, not drawn", n))
	}
	p.Y.Min = 0
	if !c.Open {
		p.Y.Max, p.Y.Tick.Marker = 1, shares
	}
	if c.Log && p.X.Min > 0 && p.X.Max > p.X.Min {
		p.X.Scale = plot.LogScale{}
	}
	if c.Ticks != nil {
		p.X.Tick.Marker = c.Ticks
	}
	if p.X.Max == p.X.Min { // one layer
		p.X.Min, p.X.Max = math.Floor(p.X.Min)-1, math.Ceil(p.X.Max)+1
	}
	return nil
}

func (c *Chart) addBars(p *plot.Plot, legend *plot.Legend) error {
	width := 0.8 * barHeight
	for i, name := range c.Series {
		var values plotter.Values
		for _, b := range c.Bars {
			values = append(values, b.Values[i])
		}
		drawn, err := plotter.NewBarChart(values, width)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		drawn.Horizontal, drawn.Color, drawn.LineStyle.Width = true, Palette[i%len(Palette)], 0
		drawn.Offset = width * (vg.Length(len(c.Series)-1)/2 - vg.Length(i))
		p.Add(drawn)
		if len(c.Series) > 1 {
			legend.Add(name, drawn)
		}
	}
	var names []string
	var longest vg.Length
	for _, b := range c.Bars {
		names = append(names, b.Name)
		longest = max(longest, p.Y.Tick.Label.Font.Size*vg.Length(len(b.Name))/2)
	}
	p.NominalY(names...)
	p.Y.Padding = 0.2 * longest // room for fonts wider than the measured one
	p.Y.Label.Text, p.X.Label.Text = "", c.Y
	p.Y.Min, p.Y.Max = -0.6, float64(len(c.Bars))-0.4
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, 1, shares
	return nil
}

// drawn returns the SVG of a plot with the width of all charts, and the legend to its right. height is
// the least height. The title is the text for readers who cannot see the picture.
func drawn(p *plot.Plot, legend *plot.Legend, height vg.Length, title string) ([]byte, error) {
	size := legend.Rectangle(draw.New(vgsvg.New(chartWidth, height))).Size()
	width := chartWidth + 1.15*size.X + 4*margin // some fonts are wider than the measured one
	height = max(height, size.Y+8*margin)
	svg := vgsvg.New(width, height)
	svg.SetColor(color.White)
	var frame vg.Path
	frame.Move(vg.Point{})
	frame.Line(vg.Point{X: width})
	frame.Line(vg.Point{X: width, Y: height})
	frame.Line(vg.Point{Y: height})
	frame.Close()
	svg.Fill(frame)
	canvas := draw.Crop(draw.New(svg), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(canvas, 0, chartWidth-width+2*margin, 0, 0))
	legend.Draw(draw.Crop(canvas, chartWidth+1.5*margin, 0, 0, -3*margin))
	var out bytes.Buffer
	if _, err := svg.WriteTo(&out); err != nil {
		return nil, err
	}
	return Portable(out.String(), title), nil
}

// Portable returns an SVG picture with fallback fonts of the same metrics, for readers without the
// Liberation fonts. The title is for readers who cannot see it.
func Portable(svg, title string) []byte {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	head, body, _ := strings.Cut(svg, ">\n<g")
	_, head, _ = strings.Cut(head, "<svg")
	title = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(printable.Line(title))
	return []byte(printable.Text(fmt.Sprintf("<svg%s>\n<title>%s</title>\n<g%s", head, title, body)))
}
