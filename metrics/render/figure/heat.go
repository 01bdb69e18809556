package figure

import (
	"errors"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Heat is a map of values by column and row. A missing value is NaN.
type Heat struct {
	X, Y string
	// Columns and Rows are the names along the axes.
	Columns, Rows []string
	// Values are the rows from the first at the bottom, each with a value per column.
	Values [][]float64
	// Scale names the values, next to the colour scale.
	Scale string
}

func (h *Heat) height(width vg.Length) vg.Length {
	return min(max(0.5*width, 16*vg.Millimeter+2.5*vg.Millimeter*vg.Length(len(h.Rows))), 1.2*width)
}

// shade returns the colour of a share from 0, pale, to 1, dark. It is as dark in grey.
func shade(share float64) color.Color {
	pale, dark := [3]float64{0xf2, 0xf5, 0xfa}, [3]float64{0x08, 0x1d, 0x58}
	var c [3]uint8
	for i := range c {
		c[i] = uint8(math.Round(pale[i] + share*(dark[i]-pale[i])))
	}
	return color.RGBA{c[0], c[1], c[2], 0xff}
}

func (h *Heat) span() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, row := range h.Values {
		for _, v := range row {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return low, high
}

func (h *Heat) draw(c draw.Canvas) error {
	low, high := h.span()
	if low > high {
		return errors.New("no values to draw")
	}
	p := newPlot(h.X, h.Y)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, float64(len(h.Columns))-0.5, -0.5, float64(len(h.Rows))-0.5
	p.X.Tick.Marker, p.Y.Tick.Marker = names(h.Columns), names(h.Rows)
	p.Add(&heatDrawer{h, low, high})
	p.Draw(draw.Crop(c, 0, -19*vg.Millimeter, 0, -vg.Millimeter))
	return nil
}

// names marks at most about ten of the names of an axis.
func names(list []string) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	each := (len(list) + 9) / 10
	for i, name := range list {
		if i%max(1, each) == 0 {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: shown(name)})
		}
	}
	return ticks
}

// heatDrawer implements plot.Plotter. The colour scale stands to the right of the axes.
type heatDrawer struct {
	*Heat
	low, high float64
}

func (h *heatDrawer) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	fill := func(ink color.Color, left, bottom, right, top vg.Length) {
		c.FillPolygon(ink, []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}})
	}
	share := func(v float64) float64 {
		if h.high == h.low {
			return 0.5
		}
		return (v - h.low) / (h.high - h.low)
	}
	for r, row := range h.Values {
		for i, v := range row {
			if !math.IsNaN(v) {
				fill(shade(share(v)), x(float64(i)-0.5), y(float64(r)-0.5), x(float64(i)+0.5), y(float64(r)+0.5))
			}
		}
	}
	const steps = 64
	left, size := c.Max.X+3*vg.Millimeter, (c.Max.Y-c.Min.Y)/steps
	for i := range steps {
		fill(shade(float64(i)/(steps-1)), left, c.Min.Y+vg.Length(i)*size, left+3*vg.Millimeter, c.Max.Y)
	}
	text := textStyle(draw.XLeft, draw.YCenter)
	for _, v := range []float64{h.low, (h.low + h.high) / 2, h.high} {
		at := c.Min.Y + vg.Length(share(v))*(c.Max.Y-c.Min.Y)
		at = min(max(at, c.Min.Y+vg.Millimeter), c.Max.Y-vg.Millimeter)
		c.FillText(text, vg.Point{X: left + 3.6*vg.Millimeter, Y: at}, tickLabel(v))
		if h.low == h.high {
			break
		}
	}
	turned := textStyle(draw.XCenter, draw.YTop)
	turned.Rotation = math.Pi / 2
	c.FillText(turned, vg.Point{X: left + 13*vg.Millimeter, Y: (c.Min.Y + c.Max.Y) / 2}, shown(h.Scale))
	c.StrokeLines(draw.LineStyle{Color: greyColor, Width: vg.Points(0.4)}, []vg.Point{{X: left, Y: c.Min.Y}, {X: left, Y: c.Max.Y}, {X: left + 3*vg.Millimeter, Y: c.Max.Y}, {X: left + 3*vg.Millimeter, Y: c.Min.Y}, {X: left, Y: c.Min.Y}})
}
