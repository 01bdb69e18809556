package figure

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Row is a row of Dots: a value with its interval, and a label at the right edge.
type Row struct {
	Name, Label      string
	Value, Low, High float64 // equal without an interval
	Highlight        bool
}

// mostOfMedian is the multiple of the median value at which the axis of Dots ends, and that of clipped
// Lines.
const mostOfMedian = 1.5

// Dots is a plot of one value a row, the first at the top.
type Dots struct {
	X    string
	Rows []Row
	// Marks are vertical lines with names.
	Marks []Row
	// Share makes the axis that of shares, from 0 to 1.
	Share bool
}

// Bar is a named row of shares, one for each series.
type Bar struct {
	Name   string
	Values []float64
}

// Shares returns dots for the values of bars, from 0 to 1. With several series, each value has a row that
// names its series, and every second row is highlighted. NaN has no row.
func Shares(x string, series []string, bars []Bar) *Dots {
	d := &Dots{X: x, Share: true}
	for _, b := range bars {
		name := b.Name
		for i, v := range b.Values {
			if math.IsNaN(v) {
				continue
			}
			row := Row{Name: name, Label: fmt.Sprintf("%.3f", v), Value: v, Low: v, High: v, Highlight: i%2 == 1}
			if len(b.Values) > 1 {
				row.Label += " " + series[i]
			}
			d.Rows, name = append(d.Rows, row), ""
		}
	}
	return d
}

const rowHeight = 4 * vg.Millimeter

func (d *Dots) height(vg.Length) vg.Length {
	return rowHeight*vg.Length(len(d.Rows)) + 14*vg.Millimeter
}

func (d *Dots) draw(c draw.Canvas) error {
	if len(d.Rows) == 0 {
		return errors.New("no rows to draw")
	}
	p := newPlot(d.X, "")
	low, high, widest := math.Inf(1), 0., vg.Length(0)
	names, highs := make([]string, len(d.Rows)), make([]float64, len(d.Rows))
	for i, r := range d.Rows {
		low, highs[i] = min(low, r.Low), r.High
		widest = max(widest, textStyle(draw.XLeft, draw.YCenter).Width(shown(r.Label)))
	}
	labels := 1.05*widest + 2*labelGap
	for i, r := range d.Rows {
		names[len(names)-1-i] = cut(shown(r.Name), mostOfNames*(c.Max.X-c.Min.X-labels))
	}
	slices.Sort(highs)
	high = min(highs[len(highs)-1], mostOfMedian*highs[len(highs)/2])
	for _, m := range d.Marks {
		low, high = min(low, m.Value), max(high, m.Value)
	}
	room := max((high-low)/25, math.Abs(high)/1000)
	p.NominalY(names...)
	p.Y.LineStyle.Width, p.Y.Tick.LineStyle.Width, p.Y.Tick.Length = 0, 0, 0
	p.Y.Min, p.Y.Max = -0.6, float64(len(d.Rows))-0.4
	p.X.Min, p.X.Max = low-room, high+room
	if d.Share {
		p.X.Min, p.X.Max = 0, 1
	}
	p.X.Tick.Marker = plot.ConstantTicks(roundTicks(p.X.Min, p.X.Max))
	p.Add(&dotDrawer{d})
	p.Draw(draw.Crop(c, 0, -labels, 0, -3*vg.Millimeter))
	return nil
}

// mostOfNames is the largest share of the width that names take from the axis.
const mostOfNames = 0.75

// cut leaves out the middle of a text that is wider than most. A third of the rest is its end.
func cut(s string, most vg.Length) string {
	wide := func(s string) bool { return textStyle(draw.XLeft, draw.YCenter).Width(s) > most }
	for r, n := []rune(s), len([]rune(s))-1; n > 0 && wide(s); n-- {
		s = string(r[:n-n/3]) + "…" + string(r[len(r)-n/3:])
	}
	return s
}

// dotDrawer implements plot.Plotter. Labels are drawn to the right of the axes.
type dotDrawer struct{ *Dots }

func (d *dotDrawer) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, m := range d.Marks {
		c.StrokeLine2(draw.LineStyle{Color: greyColor, Width: vg.Points(0.8), Dashes: []vg.Length{2, 2}}, x(m.Value), c.Min.Y, x(m.Value), c.Max.Y)
		c.FillText(textStyle(draw.XCenter, draw.YBottom), vg.Point{X: x(m.Value), Y: c.Max.Y}, shown(m.Name))
	}
	for i, r := range d.Rows {
		at, ink := y(float64(len(d.Rows)-1-i)), palette[0]
		if r.Highlight {
			ink = palette[1]
		}
		c.StrokeLine2(draw.LineStyle{Color: faintColor, Width: vg.Points(0.4)}, c.Min.X, at, c.Max.X, at)
		c.FillText(textStyle(draw.XLeft, draw.YCenter), vg.Point{X: c.Max.X + labelGap, Y: at + rise}, shown(r.Label))
		if r.Value > p.X.Max { // an arrow stands for it
			tip := vg.Point{X: c.Max.X, Y: at}
			c.StrokeLines(draw.LineStyle{Color: ink, Width: vg.Points(1.4)}, []vg.Point{{X: tip.X - 2*labelGap, Y: at}, tip},
				[]vg.Point{{X: tip.X - labelGap, Y: at + labelGap/2}, tip, {X: tip.X - labelGap, Y: at - labelGap/2}})
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(1.4)}, x(r.Low), at, x(min(r.High, p.X.Max)), at)
		c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: vg.Points(radius), Shape: draw.CircleGlyph{}}, vg.Point{X: x(r.Value), Y: at})
	}
}
