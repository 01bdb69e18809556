package figure

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// roundTicks returns at most seven ticks from low to high, in steps of 1, 2 or 5 × 10ⁿ.
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

// ratioTicks are the labelled ratios of an axis, in each power of ten. wideTicks are those of an axis
// over a factor of 20 or more.
var (
	ratioTicks = []float64{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9}
	wideTicks  = []float64{1, 2, 5}
)

// logTicks returns at most about n ticks of a logarithmic axis: those of ratioTicks or wideTicks from
// low to high that have room. A range with only two of them gets round ticks.
func logTicks(low, high float64, n int) []plot.Tick {
	digitsOf := ratioTicks
	if high/low >= 20 {
		digitsOf = wideTicks
	}
	var ticks []plot.Tick
	room, last := math.Log(high/low)/float64(n), math.Inf(-1)
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, digits := range digitsOf {
			x := digits * math.Pow(10, power)
			if x < low || x > high || math.Log(x)-last < room {
				continue
			}
			ticks = append(ticks, plot.Tick{Value: x, Label: tickLabel(x)})
			last = math.Log(x)
		}
	}
	if len(ticks) < 3 {
		return roundTicks(low, high)
	}
	return ticks
}

// tickLabel writes three digits, and whole numbers without an exponent.
func tickLabel(x float64) string {
	if x >= 1000 && x < 1e6 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
