package reproduce

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// none stands where there is no figure.
const none = "–"

// figure writes a number with its unit: as the paper printed it, or, with digits, rounded
// to so many.
func figure(v float64, unit string, digits int) string {
	if math.IsNaN(v) {
		return none
	}
	text := plain(v, digits)
	if unit != "" {
		text += " " + unit
	}
	return text
}

// plain is a number to so many digits, without exponent up to 16 of them; with digits −1
// as it was printed, which is 9 digits at most but for integers.
func plain(v float64, digits int) string {
	a := math.Abs(v)
	switch {
	case v == 0 || v == math.Trunc(v) && a < 1e16 && (digits < 0 || a >= 1e6):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 1e-4 || a >= 1e16:
		return strconv.FormatFloat(v, 'g', digits, 64)
	case digits < 0:
		if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 10 {
			return text
		}
		digits = 6
	}
	text := strconv.FormatFloat(v, 'f', max(0, digits-1-int(math.Floor(math.Log10(a)))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// percent writes a share of 1.
func percent(v float64, signed bool) string {
	format := "%.1f %%"
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return none
	case a < 5e-7:
		return "0"
	case a < 0.001:
		format = "%.4f %%"
	case a < 0.01:
		format = "%.2f %%"
	}
	if signed {
		format = "%+" + format[1:]
	}
	return fmt.Sprintf(format, 100*v)
}

// printed is the paper's figure with its unit.
func (l *Line) printed() string { return figure(l.Target.Printed(), l.Unit, -1) }

// reference is the figure that ours is compared with if the paper prints none.
func (l *Line) reference() string {
	v, _ := l.Target.Reference()
	return figure(v, l.Unit, -1)
}

// shown is the number of digits of our figures. More would show the order of operations and
// a processor's fused multiplications.
const shown = 5

func (l *Line) ours() string {
	if l.meets() {
		return figure(l.Target.Value(), l.Unit, -1)
	}
	return figure(l.Ours, l.Unit, shown)
}

// meets reports whether ours equals the target up to rounding in the computer.
func (l *Line) meets() bool {
	target := l.Target.Value()
	return math.Abs(l.Ours-target) <= equal*math.Abs(target)
}

// err is the error in the terms of the gate.
func (l *Line) err() string {
	switch d := l.Ours - l.Target.Value(); {
	case math.IsNaN(d) || l.Kind == Ordinal:
		return none
	case l.meets():
		return "0"
	case l.Gate.Absolute > 0 && l.Gate.Relative == 0 || l.Target.Value() == 0:
		return fmt.Sprintf("%+.2g", d)
	}
	return percent(l.Error(), true)
}

// String is the gate, empty where it lets all pass.
func (g Gate) String() string {
	var parts []string
	if g.Relative > 0 {
		parts = append(parts, "± "+plain(100*g.Relative, 4)+" %")
	}
	if g.Absolute > 0 {
		parts = append(parts, "± "+plain(g.Absolute, 4))
	}
	return strings.Join(parts, ", ")
}
