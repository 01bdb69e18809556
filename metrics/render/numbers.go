package render

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/board"
)

// figureDigits are the significant digits of a figure without an interval.
const figureDigits = 3

// unit is the presentation of figures: multiplied by scale, with a largest number of decimals, and
// a suffix.
type unit struct {
	scale  float64
	most   int
	suffix string
}

var (
	ratioUnit   = unit{1, 3, ""}
	percentUnit = unit{100, 1, " %"}
	timeUnit    = unit{1e3, math.MaxInt, " ms"} // of seconds, so that a column has one unit
)

// rounded writes x with a number of decimals. Negative numbers round to tens, hundreds and so on.
func rounded(x float64, decimals int) string {
	if decimals < 0 {
		unit := math.Pow10(-decimals)
		x, decimals = math.Round(x/unit)*unit, 0
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// threeDigits writes x with three significant digits, never with an exponent.
func threeDigits(x float64) string {
	return rounded(x, digitsOf(x, figureDigits))
}

// digitsOf returns the number of decimals with which x has n significant digits. 0 is written as
// 0.0.
func digitsOf(x float64, n int) int {
	if x == 0 {
		return 1
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	// The exponent is that of x rounded: 9.999 with three digits is 10.0.
	_, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', n-1, 64), "e")
	e, err := strconv.Atoi(exponent)
	if err != nil {
		panic(err) // Atoi reads the output of FormatFloat
	}
	return n - 1 - e
}

// decimals returns the number of decimals of a figure. The first digit of its interval's half-width
// sets the last place. After a 1 there is one place more (Taylor, An Introduction to Error
// Analysis, 1997, section 2.2). A figure without an interval, or with one of width 0, has three
// significant digits.
func (u unit) decimals(f *board.Figure) int {
	half := halfWidth(f)
	if half <= 0 {
		return digitsOf(u.scale*f.Value, figureDigits)
	}
	places := digitsOf(u.scale*half, 1)
	for digits := range 2 { // 0.096 is 0.1, and 0.17 is 0.2, yet begins with 1
		if strconv.FormatFloat(half, 'e', digits, 64)[0] == '1' {
			places++
			break
		}
	}
	return min(u.most, places)
}

// halfWidth returns half the width of a figure's interval. It is the lower half if the interval has
// no upper end, and 0 without an interval.
func halfWidth(f *board.Figure) float64 {
	switch {
	case !f.Bounded():
		return 0
	case f.High == nil:
		return f.Value - *f.Low
	}
	return (*f.High - *f.Low) / 2
}

// column returns the unit for the figures of one column. Its decimals are at most those that half
// of the intervals support. Less certain figures have fewer.
func (u unit) column(figures []*board.Figure) unit {
	var all, certain []int
	for _, f := range figures {
		if f != nil {
			all = append(all, u.decimals(f))
		}
		if halfWidth(f) > 0 {
			certain = append(certain, u.decimals(f))
		}
	}
	if certain != nil {
		slices.Sort(certain)
		u.most = min(u.most, certain[len(certain)/2])
	}
	if all != nil {
		u.most = min(u.most, slices.Max(all))
	}
	return u
}

// text shows a figure's value.
func (u unit) text(f *board.Figure) string { return u.number(f, f.Value) }

// number shows a value with the decimals of a figure.
func (u unit) number(f *board.Figure, value float64) string {
	return rounded(u.scale*value, min(u.most, u.decimals(f)))
}

// interval shows the interval of a figure with the decimals of its value. It is empty for an
// interval of width 0, which is that of a yardstick against itself.
func (u unit) interval(f *board.Figure) string {
	switch {
	case f == nil || f.Low == nil:
		return notAvailable
	case f.Unbounded():
		return fmt.Sprintf("[%s, ∞)", u.number(f, *f.Low))
	case *f.Low == *f.High:
		return ""
	}
	return fmt.Sprintf("[%s, %s]", u.number(f, *f.Low), u.number(f, *f.High))
}

// cell shows a figure in its column. A unit without a suffix pads missing decimals with spaces, so
// that decimal points line up.
func (u unit) cell(f *board.Figure) string {
	if f == nil {
		return notAvailable
	}
	text := u.text(f)
	if u.suffix != "" {
		return text + u.suffix
	}
	_, decimals, _ := strings.Cut(text, ".")
	missing := max(0, u.most-len(decimals))
	if decimals == "" && u.most > 0 {
		missing++ // the point
	}
	return text + strings.Repeat(" ", missing)
}

// notAvailable is the text of a figure that cannot be computed.
const notAvailable = "n/a"

// timesWithInterval is "1.23 [1.20, 1.27]".
func timesWithInterval(f *board.Figure) string {
	switch {
	case f == nil:
		return notAvailable
	case f.Low == nil:
		return ratioUnit.text(f)
	}
	return strings.TrimSpace(ratioUnit.text(f) + " " + ratioUnit.interval(f))
}

// percent shows a share with three digits.
func percent(x float64) string {
	if x != x {
		return notAvailable
	}
	return threeDigits(100*x) + " %"
}

// shareText is percent, or notAvailable for nil.
func shareText(x *float64) string {
	if x == nil {
		return notAvailable
	}
	return percent(*x)
}

// timeText shows seconds as milliseconds with three digits, so that a column has one unit.
func timeText(seconds *float64) string {
	if seconds == nil {
		return notAvailable
	}
	return timeUnit.cell(&board.Figure{Value: *seconds})
}

// bytesText shows bytes with three digits and a binary unit.
func bytesText(b *float64) string {
	if b == nil {
		return notAvailable
	}
	x := *b
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if x < 999.5 { // 1000 B have four digits
			return threeDigits(x) + " " + unit
		}
		x /= 1024
	}
	return threeDigits(x) + " TiB"
}
