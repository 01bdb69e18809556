package card

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	chartWidth  = 16 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	barHeight   = 5.5 * vg.Millimeter // of a bar's row
	margin      = 4 * vg.Millimeter
	// mostLines is how many lines a chart shows; readers cannot tell more apart.
	mostLines = 24
)

// palette is that of Okabe and Ito (Color Universal Design, 2008), made to be told apart
// without colour vision, less its yellow, which is faint on white.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

var (
	dashes = [][]vg.Length{nil, {7, 2}, {2, 2}, {8, 2, 2, 2}}
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	grey   = color.RGBA{0x77, 0x77, 0x77, 0xff}
	faint  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// chart is lines over x, or rows of bars.
type chart struct {
	title, x, y string
	lines       []line
	log         bool // x is logarithmic
	open        bool // y ends above the data, not at 1
	ticks       plot.ConstantTicks
	bars        []bar
	series      []string // names of a bar's values
}

type line struct {
	name   string
	points plotter.XYs
}

// bar is a row of values, one a series.
type bar struct {
	name   string
	values []float64
}

func (c *chart) empty() bool {
	for _, l := range c.lines {
		if len(l.points) > 0 {
			return false
		}
	}
	return len(c.bars) == 0
}

// draw is the chart as SVG; equal charts give equal bytes.
func (c *chart) draw() ([]byte, error) {
	p := plot.New()
	c.style(p)
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font, legend.TextStyle.Color = sans(10), ink
	legend.ThumbnailWidth, legend.Padding, legend.YPosition = 9*vg.Millimeter, 1.2*vg.Millimeter, draw.PosCenter
	height := vg.Length(chartHeight)
	var err error
	if len(c.bars) > 0 {
		height = barHeight*vg.Length(len(c.bars)*len(c.series)) + 3*vg.Centimeter
		err = c.addBars(p, &legend)
	} else {
		err = c.addLines(p, &legend)
	}
	if err != nil {
		return nil, err
	}
	return c.write(p, &legend, height)
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

func (c *chart) style(p *plot.Plot) {
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.Title.TextStyle.Font, p.Title.TextStyle.Color, p.Title.Padding = sans(13), ink, margin
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color, axis.Label.Padding = sans(11), ink, margin/2
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(10), ink
		axis.Color, axis.Tick.Color, axis.Padding = grey, grey, 0
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
}

// shares are ticks from 0 to 1.
var shares = labelled(0, 0.2, 0.4, 0.6, 0.8, 1)

func (c *chart) addLines(p *plot.Plot, legend *plot.Legend) error {
	for i, l := range c.lines[:min(len(c.lines), mostLines)] {
		drawn, err := plotter.NewLine(l.points)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		drawn.LineStyle = draw.LineStyle{Color: palette[i%len(palette)], Width: vg.Points(1.6), Dashes: dashes[i/len(palette)%len(dashes)]}
		p.Add(drawn)
		legend.Add(l.name, drawn)
	}
	if n := len(c.lines) - mostLines; n > 0 {
		legend.Add(fmt.Sprintf("… and %d more, not drawn", n))
	}
	p.Y.Min = 0
	if !c.open {
		p.Y.Max, p.Y.Tick.Marker = 1, shares
	}
	if c.log && p.X.Min > 0 && p.X.Max > p.X.Min {
		p.X.Scale = plot.LogScale{}
	}
	if c.ticks != nil {
		p.X.Tick.Marker = c.ticks
	}
	if p.X.Max == p.X.Min { // one layer
		p.X.Min, p.X.Max = math.Floor(p.X.Min)-1, math.Ceil(p.X.Max)+1
	}
	return nil
}

func (c *chart) addBars(p *plot.Plot, legend *plot.Legend) error {
	width := 0.8 * barHeight
	for i, name := range c.series {
		var values plotter.Values
		for _, b := range c.bars {
			values = append(values, b.values[i])
		}
		drawn, err := plotter.NewBarChart(values, width)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		drawn.Horizontal, drawn.Color, drawn.LineStyle.Width = true, palette[i%len(palette)], 0
		drawn.Offset = width * (vg.Length(len(c.series)-1)/2 - vg.Length(i))
		p.Add(drawn)
		if len(c.series) > 1 {
			legend.Add(name, drawn)
		}
	}
	var names []string
	var longest vg.Length
	for _, b := range c.bars {
		names = append(names, b.name)
		longest = max(longest, p.Y.Tick.Label.Font.Size*vg.Length(len(b.name))/2)
	}
	p.NominalY(names...)
	p.Y.Padding = 0.2 * longest // room for fonts wider than the one that is measured
	p.Y.Label.Text, p.X.Label.Text = "", c.y
	p.Y.Min, p.Y.Max = -0.6, float64(len(c.bars))-0.4
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, 1, shares
	return nil
}

// write draws the plot and, right of it, the legend.
func (c *chart) write(p *plot.Plot, legend *plot.Legend, height vg.Length) ([]byte, error) {
	size := legend.Rectangle(draw.New(vgsvg.New(chartWidth, height))).Size()
	width := chartWidth + 1.15*size.X + 4*margin // some fonts are wider than the one that is measured
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
	return []byte(c.portable(out.String())), nil
}

// portable names fallbacks of the same metrics for readers without the Liberation fonts,
// and gives the picture a title for those who cannot see it.
func (c *chart) portable(svg string) string {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	head, body, _ := strings.Cut(svg, ">\n<g")
	_, head, _ = strings.Cut(head, "<svg")
	title := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(c.title)
	return fmt.Sprintf("<svg%s>\n<title>%s</title>\n<g%s", head, title, body)
}
