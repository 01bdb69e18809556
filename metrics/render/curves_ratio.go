package render

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

const (
	// mostAbove is how many times the worst × OPT of the median contender the axis reaches:
	// those that are far worse do not press the others together.
	mostAbove = 1.5
	// mostBelow is the share of OPT's, or of a better contender's, that it reaches down to
	// for bounds.
	mostBelow = 0.95
)

// ratioScale is the range of × OPT that is drawn; the zero value where there is none.
type ratioScale struct{ low, high float64 }

// ratioScaleOf fits the range to the contenders, and to the bounds where there are none.
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

// span is the least and the largest y.
func span(points plotter.XYs) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		low, high = min(low, p.Y), max(high, p.Y)
	}
	return low, high
}

// beyond says in the legend that a curve leaves the scale.
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

// style makes y × OPT over the range, logarithmic.
func (s ratioScale) style(p *plot.Plot, curves []curve) {
	spanSizes(p, curves)
	p.Y.Label.Text = "× OPT (misses ÷ OPT's, log scale)"
	p.Y.Min, p.Y.Max, p.Y.Scale = s.low, s.high, plot.LogScale{}
	p.Y.Tick.Marker = plot.ConstantTicks(s.ticks())
}

// ratioTicks are the digits at which an axis of ratios is labelled, of each power of ten.
var ratioTicks = []float64{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9}

// ticks are those of ratioTicks within the range that have room; of a range that holds
// but two of them round ones.
func (s ratioScale) ticks() []plot.Tick {
	var ticks []plot.Tick
	room, last := math.Log(s.high/s.low)/18, math.Inf(-1)
	for power := math.Floor(math.Log10(s.low)); power <= math.Log10(s.high); power++ {
		for _, digits := range ratioTicks {
			x := digits * math.Pow(10, power)
			if x < s.low || x > s.high || math.Log(x)-last < room {
				continue
			}
			ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', 3, 64)})
			last = math.Log(x)
		}
	}
	if len(ticks) < 3 {
		return roundTicks(s.low, s.high)
	}
	return ticks
}
