package figure

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Point is a value with its interval. Low and High are equal to Y without one.
type Point struct{ X, Y, Low, High float64 }

// At returns a point without an interval.
func At(x, y float64) Point { return Point{x, y, y, y} }

// Line is a named series of points with ascending X.
type Line struct {
	Name   string
	Points []Point
	// Bound marks a line that is no contender, as OPT. It is grey.
	Bound bool
	// Bare leaves out the markers, for lines of many points. It shows the intervals of a dozen points,
	// at other ones for each line.
	Bare bool
}

// Lines is a plot of lines. Their names stand at their ends.
type Lines struct {
	X, Y string
	// Ticks are the marked values of X. Without any, they are round.
	Ticks []float64
	// LogX makes the axis of X logarithmic.
	LogX bool
	// Share makes the axis of Y that of shares, from 0 to 1.
	Share bool
	// Clip ends the axis of Y at a multiple of the median contender's largest value. The name of a
	// line that ends beyond the axis then states its last value.
	Clip  bool
	Lines []Line
}

func (l *Lines) height(width vg.Length) vg.Length {
	return max(0.62*width, lineHeight*vg.Length(len(l.Lines))+14*vg.Millimeter)
}

// span returns the ends of the axes. Y is that of the contenders, with room above and below.
func (l *Lines) span() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, contenders := range []bool{true, false} {
		var most []float64
		for _, line := range l.Lines {
			high := math.Inf(-1)
			for _, p := range line.Points {
				x[0], x[1] = min(x[0], p.X), max(x[1], p.X)
				if line.Bound != contenders {
					y[0], high = min(y[0], p.Low), max(high, p.High)
				}
			}
			if high > math.Inf(-1) {
				most = append(most, high)
			}
		}
		if slices.Sort(most); most != nil {
			if y[1] = most[len(most)-1]; l.Clip {
				y[1] = max(y[0], min(y[1], mostOfMedian*most[len(most)/2]))
			}
			break
		}
	}
	if l.Share {
		return x, [2]float64{0, 1}
	}
	room := (y[1] - y[0]) / 20
	if room == 0 {
		room = max(math.Abs(y[1])/20, 0.01)
	}
	low := y[0] - room
	if y[0] >= 0 {
		low = max(0, low) // shares and counts
	}
	return x, [2]float64{low, y[1] + room}
}

// margins are the widths next to a plot's area: on the left for the axis of Y, on the right for names.
type margins struct{ left, right vg.Length }

// linePlot is a plot of lines with the margins that it needs.
type linePlot struct {
	*plot.Plot
	margins
}

func (l *Lines) draw(c draw.Canvas) error {
	x, _ := l.span()
	p, err := l.plot(x)
	if err == nil {
		p.drawWithin(c, p.margins)
	}
	return err
}

// drawWithin draws the plot with margins that are at least its own.
func (p *linePlot) drawWithin(c draw.Canvas, m margins) {
	p.Draw(draw.Crop(c, m.left-p.left, -m.right, 0, -vg.Millimeter))
}

// plot returns the plot with an axis of X from x[0] to x[1].
func (l *Lines) plot(x [2]float64) (*linePlot, error) {
	own, y := l.span()
	if own[0] > own[1] {
		return nil, errors.New("no points to draw")
	}
	for _, line := range l.Lines { // the bound of all is shown if it is near
		for _, p := range line.Points {
			if room := (y[1] - y[0]) / 4; line.Bound && p.Y < y[0] && p.Y > y[0]-room {
				y[0] = p.Y - room/12
			}
		}
	}
	p := newPlot(l.X, l.Y)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x[0], x[1], y[0], y[1]
	if x[0] == x[1] {
		p.X.Min, p.X.Max = x[0]-1, x[0]+1
	}
	switch {
	case l.LogX && x[0] > 0 && x[1] > x[0]:
		p.X.Scale = plot.LogScale{}
	case l.Ticks == nil:
		p.X.Tick.Marker = plot.ConstantTicks(roundTicks(p.X.Min, p.X.Max))
	}
	if l.Ticks != nil {
		p.X.Tick.Marker = plot.ConstantTicks(slice.Map(l.Ticks, func(v float64) plot.Tick {
			return plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)}
		}))
	}
	p.Y.Tick.Marker = plot.ConstantTicks(roundTicks(p.Y.Min, p.Y.Max))
	widest := vg.Length(0)
	named := slices.Clone(l.Lines)
	for i := range named {
		line := &named[i]
		if n := len(line.Points); l.Clip && n > 0 && (line.Points[n-1].Y > p.Y.Max || line.Points[n-1].Y < p.Y.Min) {
			line.Name += fmt.Sprintf(" (%.3g)", line.Points[n-1].Y)
		}
		widest = max(widest, textStyle(draw.XLeft, draw.YCenter).Width(shown(line.Name)))
	}
	p.Add(grid(), &lineDrawer{named})
	left := p.DataCanvas(draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: vg.Inch, Y: vg.Inch}}}).Min.X
	return &linePlot{p, margins{left, 1.05*widest + 4*labelGap}}, nil
}

// bareIntervals is about the number of intervals of a bare line.
const bareIntervals = 12

// lineDrawer implements plot.Plotter. Labels are drawn to the right of the axes.
type lineDrawer struct{ lines []Line }

func (l *lineDrawer) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	inside := func(v float64) bool { return v >= p.Y.Min && v <= p.Y.Max }
	var labels []int
	var ends []vg.Length
	inks := make([]color.Color, len(l.lines))
	contender := 0
	for i, line := range l.lines {
		stroke, mark := style(contender)
		if line.Bound {
			stroke, mark = draw.LineStyle{Color: greyColor, Width: vg.Points(lineWidth), Dashes: []vg.Length{2, 2}}, draw.GlyphStyle{Color: greyColor, Radius: vg.Points(radius), Shape: draw.PlusGlyph{}}
		} else {
			contender++
		}
		inks[i] = stroke.Color
		every, first := 1, 0
		if line.Bare && len(line.Points) > bareIntervals {
			every = len(line.Points) / bareIntervals
			first = every * i / len(l.lines)
		}
		var path []vg.Point
		for j, q := range line.Points {
			path = append(path, vg.Point{X: x(q.X), Y: y(q.Y)})
			if j%every != first {
				continue
			}
			if low, high := max(q.Low, p.Y.Min), min(q.High, p.Y.Max); low < high {
				c.StrokeLine2(draw.LineStyle{Color: stroke.Color, Width: vg.Points(0.6)}, x(q.X), y(low), x(q.X), y(high))
			}
		}
		c.StrokeLines(stroke, c.ClipLinesXY(path)...)
		for j, q := range line.Points {
			if inside(q.Y) && !line.Bare {
				c.DrawGlyph(mark, path[j])
			}
		}
		if len(line.Points) > 0 {
			last := line.Points[len(line.Points)-1]
			labels, ends = append(labels, i), append(ends, y(min(max(last.Y, p.Y.Min), p.Y.Max)))
		}
	}
	text := textStyle(draw.XLeft, draw.YCenter)
	for n, at := range spread(ends, lineHeight, c.Min.Y, c.Max.Y) {
		line := l.lines[labels[n]]
		last := line.Points[len(line.Points)-1]
		c.StrokeLine2(draw.LineStyle{Color: inks[labels[n]], Width: vg.Points(0.5)}, x(last.X), ends[n], c.Max.X+3*labelGap, at)
		c.FillText(text, vg.Point{X: c.Max.X + 3.5*labelGap, Y: at + rise}, shown(line.Name))
	}
}
