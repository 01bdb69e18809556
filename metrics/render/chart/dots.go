package chart

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	dotsWidth = 19 * vg.Centimeter
	dotHeight = 6.2 * vg.Millimeter // of a row
	// mostOfMedian is how many times the median the axis of dots reaches. Values that are far
	// larger do not press the others together.
	mostOfMedian = 1.5
)

// Dots is a plot of one value a row with an interval, the first row at the top.
type Dots struct {
	Title, X string
	Rows     []Dot
	// Lines are vertical lines at values, with names.
	Lines []Mark
	// Dark chooses colours for a dark page.
	Dark bool
}

// Dot is a row of Dots.
type Dot struct {
	Name, Label      string
	Value, Low, High float64 // equal without an interval
	Highlight        bool
}

// Mark is a named value of the axis.
type Mark struct {
	Name  string
	Value float64
}

// scheme is the colours of a plot of dots.
type scheme struct{ page, ink, grey, faint, dot, highlight color.Color }

var (
	light = scheme{color.White, Ink, Grey, Faint, Palette[0], Palette[1]}
	// dark has the page colour of GitHub's dark theme.
	dark = scheme{rgb(0x0d1117), rgb(0xe6edf3), rgb(0x9198a1), rgb(0x30363d), rgb(0x58a6ff), rgb(0xf0883e)}
)

func rgb(hex uint32) color.Color {
	return color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// Draw is the plot as SVG.
func (d *Dots) Draw() ([]byte, error) {
	s := light
	if d.Dark {
		s = dark
	}
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.X.Label.Text = d.Title, d.X
	styleAxes(p)
	p.Title.TextStyle.Font, p.Title.TextStyle.Color, p.Title.Padding = Sans(13), s.ink, 2*margin
	names := make([]string, len(d.Rows))
	for i, row := range d.Rows {
		names[len(names)-1-i] = row.Name
	}
	p.NominalY(names...)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = s.ink, s.ink
		axis.Color, axis.Tick.Color = s.grey, s.grey
	}
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width = 0, 0
	p.Y.Min, p.Y.Max = -0.6, float64(len(d.Rows))-0.4
	p.X.Min, p.X.Max = d.span()
	p.Add(&dotPlotter{d, s})
	svg, canvas := newCanvas(dotsWidth, dotHeight*vg.Length(len(d.Rows))+2.9*vg.Centimeter, s.page)
	p.Draw(draw.Crop(canvas, 0, -margin, 0, 0))
	return written(svg, d.Title)
}

// span is the range of the axis.
func (d *Dots) span() (low, high float64) {
	var lows, highs []float64
	for _, row := range d.Rows {
		lows, highs = append(lows, row.Low), append(highs, row.High)
	}
	for _, line := range d.Lines {
		lows, highs = append(lows, line.Value), append(highs, line.Value)
	}
	slices.Sort(highs)
	low, high = slices.Min(lows), min(highs[len(highs)-1], mostOfMedian*highs[len(highs)/2])
	room := max((high-low)/12, high/50) // for labels
	return low - room/3, high + room
}

// dotPlotter draws the rows and lines.
type dotPlotter struct {
	*Dots
	scheme
}

// Plot implements plot.Plotter.
func (d *dotPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	text := func(ink color.Color, left draw.XAlignment) draw.TextStyle {
		return draw.TextStyle{Font: Sans(10), Color: ink, XAlign: left, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	}
	for _, line := range d.Lines {
		c.StrokeLine2(draw.LineStyle{Color: d.grey, Width: vg.Points(1), Dashes: []vg.Length{3, 3}}, x(line.Value), c.Min.Y, x(line.Value), c.Max.Y)
		c.FillText(text(d.grey, draw.XCenter), vg.Point{X: x(line.Value), Y: c.Max.Y + 2.2*vg.Millimeter}, line.Name)
	}
	for i, row := range d.Rows {
		at, ink := y(float64(len(d.Rows)-1-i)), d.dot
		if row.Highlight {
			ink = d.highlight
		}
		leader, label := draw.LineStyle{Color: d.faint, Width: vg.Points(0.5)}, at+vg.Points(1)
		if row.Value > p.X.Max { // beyond the axis
			style := text(ink, draw.XRight)
			c.StrokeLine2(leader, c.Min.X, at, c.Max.X-style.Width(row.Label+"   →"), at)
			c.FillText(style, vg.Point{X: c.Max.X, Y: label}, row.Label+" →")
			continue
		}
		c.StrokeLine2(leader, c.Min.X, at, x(row.Low), at)
		high := min(row.High, p.X.Max)
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(2)}, x(row.Low), at, x(high), at)
		c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: vg.Points(3.4), Shape: draw.CircleGlyph{}}, vg.Point{X: x(row.Value), Y: at})
		c.FillText(text(d.ink, draw.XLeft), vg.Point{X: max(x(high), x(row.Value)+vg.Points(3.4)) + 2*vg.Millimeter, Y: label}, row.Label)
	}
}
