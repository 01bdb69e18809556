package render

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/board"
)

// TestDigits: the first digit of the half-width decides, or after a 1 the second.
func TestDigits(t *testing.T) {
	figure := func(value, low, high float64) *board.Figure {
		return &board.Figure{Value: value, Low: &low, High: &high}
	}
	for _, c := range []struct {
		f              *board.Figure
		text, interval string
	}{
		{figure(1.5712, 1.5512, 1.5998), "1.57", "[1.55, 1.60]"},       // ± 0.024
		{figure(1.0391, 1.0283, 1.0474), "1.039", "[1.028, 1.047]"},    // ± 0.0096, 0.01 to one digit
		{figure(1.0877, 1.0166, 1.2081), "1.09", "[1.02, 1.21]"},       // ± 0.096, 0.1 to one digit
		{figure(6.1064, 5.7131, 6.7484), "6.1", "[5.7, 6.7]"},          // ± 0.52
		{figure(1.23456, 1.23455, 1.23457), "1.235", "[1.235, 1.235]"}, // three decimals at most
		{figure(1.4412, 1.3812, 1.7138), "1.44", "[1.38, 1.71]"},       // ± 0.17
		{figure(134.2, 110, 170), "130", "[110, 170]"},                 // ± 30
		{figure(1, 1, 1), "1.00", ""},                                  // exact
		{&board.Figure{Value: 1.2654}, "1.27", "n/a"},
		{&board.Figure{Value: 123.456}, "123", "n/a"},
		{&board.Figure{Value: 0.0123456}, "0.012", "n/a"},
		{nil, "n/a", "n/a"},
	} {
		if text, interval := strings.TrimRight(ratioUnit.cell(c.f), " "), ratioUnit.interval(c.f); text != c.text || interval != c.interval {
			t.Errorf("%+v: %s %s, want %s %s", c.f, text, interval, c.text, c.interval)
		}
	}
	for _, c := range []struct {
		f    *board.Figure
		want string
	}{
		{figure(0.1403, 0.1201, 0.1609), "14 %"}, {figure(-5.697, -6.2, -5.1), "-570 %"}, {figure(-0.001, -0.03, 0.02), "0 %"},
		{&board.Figure{Value: 1}, "100 %"}, {&board.Figure{Value: 0.81298}, "81.3 %"}, {&board.Figure{}, "0.0 %"}, {figure(0.5, 0.4999, 0.5001), "50.0 %"},
	} {
		if got := percentUnit.cell(c.f); got != c.want {
			t.Errorf("%v: %s, want %s", c.f.Value, got, c.want)
		}
	}
}

// TestColumnsLineUp: a column has the decimals that half of its figures support. Less certain
// figures have fewer decimals, with the point in place.
func TestColumnsLineUp(t *testing.T) {
	figure := func(value, half float64) *board.Figure {
		low, high := value-half, value+half
		return &board.Figure{Value: value, Low: &low, High: &high}
	}
	column := []*board.Figure{figure(1.2345, 0.003), figure(1.6, 0.03), figure(2.345, 0.04), figure(6.12, 0.5), figure(13.4, 3), nil}
	u := ratioUnit.column(column)
	var got []string
	for _, f := range column {
		got = append(got, u.cell(f))
	}
	if want := "1.23|1.60|2.35|6.1 |13   |n/a"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", strings.Join(got, "|"), want)
	}
}

func TestThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0", 1: "1.00", 9.996: "10.0", 99.95: "100", 12345: "12300", 0.000123456: "0.000123", -5.678: "-5.68", 1e-12: "0.00000000000100"} {
		if got := threeDigits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// TestPText: two digits, unless they would show the other verdict.
func TestPText(t *testing.T) {
	for p, want := range map[float64]string{0.0625: "0.062", 0.04996: "0.04996", 0.0499: "0.0499", 0.0502: "0.050", 1: "1.0", 0.00196: "0.0020", 1.5e-5: "< 0.0001"} {
		if got := pText(&p); got != want {
			t.Errorf("%v: %s, want %s", p, got, want)
		}
	}
	if got := pText(nil); got != notAvailable {
		t.Error(got)
	}
}
