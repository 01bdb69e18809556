package figure

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Mark is a named point of a plot. Group chooses its marker.
type Mark struct {
	Point
	Name  string
	Group int
	// Front marks points that no other point of their group beats in both values.
	Front bool
}

// Points is a plot of named points. A line joins those of a group on the front, and their names
// stand next to them. Less is better on both axes.
type Points struct {
	X, Y   string
	Groups []string
	Points []Mark
	// LogY makes the axis of Y logarithmic.
	LogY bool
}

func (s *Points) height(width vg.Length) vg.Length { return 0.7 * width }

func (s *Points) draw(c draw.Canvas) error {
	if len(s.Points) == 0 {
		return errors.New("no points to draw")
	}
	p := newPlot(s.X, s.Y)
	x, y := [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, m := range s.Points {
		x[0], x[1] = min(x[0], m.X), max(x[1], m.X)
		y[0], y[1] = min(y[0], m.Low), max(y[1], m.High)
	}
	room := max((x[1]-x[0])/20, math.Abs(x[1])/100)
	p.X.Min, p.X.Max = x[0]-room, x[1]+5*room // names stand at the right
	p.X.Tick.Marker = plot.ConstantTicks(roundTicks(p.X.Min, p.X.Max))
	if s.LogY = s.LogY && y[0] > 0; s.LogY {
		low, high := y[0]/1.15, y[1]*1.3
		ticks := logTicks(low, high, 8)
		for i := range ticks {
			ticks[i].Value = math.Log(ticks[i].Value)
		}
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = math.Log(low), math.Log(high), plot.ConstantTicks(ticks)
	} else {
		room := max((y[1]-y[0])/12, math.Abs(y[1])/100)
		p.Y.Min, p.Y.Max = y[0]-room, y[1]+2*room
		p.Y.Tick.Marker = plot.ConstantTicks(roundTicks(p.Y.Min, p.Y.Max))
	}
	p.Add(grid(), &pointDrawer{s})
	p.Draw(draw.Crop(c, 0, -2*vg.Millimeter, 0, -5*vg.Millimeter))
	return nil
}

// pointDrawer implements plot.Plotter.
type pointDrawer struct{ of *Points }

func (s *pointDrawer) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	if s.of.LogY { // plot.LogScale would place the axis label by the mean of values, not of logarithms
		linear := y
		y = func(v float64) vg.Length { return linear(math.Log(v)) }
	}
	var taken []vg.Rectangle
	text := textStyle(draw.XLeft, draw.YCenter)
	for g := range s.of.Groups {
		var front []Mark
		stroke, glyph := style(g)
		for _, m := range s.of.Points {
			if m.Group != g {
				continue
			}
			at := vg.Point{X: x(m.X), Y: y(m.Y)}
			c.StrokeLine2(draw.LineStyle{Color: stroke.Color, Width: vg.Points(0.5)}, at.X, y(m.Low), at.X, y(m.High))
			c.DrawGlyph(glyph, at)
			half := vg.Point{X: vg.Points(radius), Y: vg.Points(radius)}
			taken = append(taken, vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)})
			if m.Front {
				front = append(front, m)
			}
		}
		slice.Sort(front, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
		var path []vg.Point
		for i, m := range front {
			if i > 0 { // less memory costs time until the next point
				path = append(path, vg.Point{X: x(m.X), Y: y(front[i-1].Y)})
			}
			path = append(path, vg.Point{X: x(m.X), Y: y(m.Y)})
		}
		c.StrokeLines(stroke, path)
	}
	at := c.Min.X
	for g, name := range s.of.Groups { // few kinds, in a line above the axes
		_, glyph := style(g)
		c.DrawGlyphNoClip(glyph, vg.Point{X: at + vg.Points(radius), Y: c.Max.Y + 2*vg.Millimeter})
		at += 3 * labelGap
		c.FillText(text, vg.Point{X: at, Y: c.Max.Y + 2*vg.Millimeter}, shown(name))
		at += text.Width(shown(name)) + 3*labelGap
	}
	named := map[string]bool{}
	for _, m := range s.of.Points {
		if m.Front && !named[m.Name] {
			named[m.Name] = true
			s.label(c, text, vg.Point{X: x(m.X), Y: y(m.Y)}, shown(m.Name), &taken)
		}
	}
}

// label writes a name at the first place around a point where it covers nothing. Without such a
// place it leaves the name out.
func (s *pointDrawer) label(c draw.Canvas, text draw.TextStyle, at vg.Point, name string, taken *[]vg.Rectangle) {
	width, up := text.Width(name), lineHeight
	for _, shift := range []vg.Point{{X: labelGap, Y: 0.7 * up}, {X: labelGap}, {X: labelGap, Y: -up}, {X: labelGap, Y: 1.4 * up}, {X: -width - labelGap}, {X: -width - labelGap, Y: up}, {X: -width - labelGap, Y: -up}, {X: -width / 2, Y: up}, {X: -width / 2, Y: -up}} {
		from := at.Add(shift)
		box := vg.Rectangle{Min: vg.Point{X: from.X, Y: from.Y - up/2.2}, Max: vg.Point{X: from.X + width, Y: from.Y + up/2.2}}
		if box.Min.X < c.Min.X || box.Max.X > c.Max.X+2*vg.Millimeter || box.Min.Y < c.Min.Y || box.Max.Y > c.Max.Y {
			continue
		}
		if slices.ContainsFunc(*taken, func(r vg.Rectangle) bool {
			return box.Min.X < r.Max.X && r.Min.X < box.Max.X && box.Min.Y < r.Max.Y && r.Min.Y < box.Max.Y
		}) {
			continue
		}
		*taken = append(*taken, box)
		c.FillText(text, from, name)
		return
	}
}
