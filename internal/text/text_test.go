package text

import (
	"slices"
	"testing"
)

func TestFigures(t *testing.T) {
	half, none := Share(1, 2), Share(1, 0)
	for got, want := range map[string]string{
		Count(1, "row"): "1 row", Count(0, "row"): "0 rows",
		Number(half, 2): "0.50", Number(none, 2): None,
		Rate(9999.4, 4): "9999", Rate(9999.6, 4): "10000", Rate(39171.5, 4): "39172", Rate(1174.2, 4): "1174", Rate(0.04, 4): "0.04", Rate(0, 4): "0", Rate(1234, 3): "1234", Rate(3.846, 3): "3.85",
		Percent(half): "50.0 %", Percent(none): "–",
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

// Consecutive numbers become ranges.
func TestRanges(t *testing.T) {
	if got := Ranges([]int32{0, 5, 10, 11, 12, 20, 21}); !slices.Equal(got, []string{"0", "5", "10-12", "20-21"}) {
		t.Errorf("got %q", got)
	}
}

// A figure rounded down is at most the figure, and at most one unit of its last digit below it.
func TestRoundDown(t *testing.T) {
	for v, want := range map[float64]float64{12.16: 12.1, 12.1: 12.1, 99.96: 99.9, 0.09999: 0.0999, 1234.9: 1234, 999.6: 999, 0: 0, 8.984: 8.98} {
		if got := RoundDown(v, 3); got != want {
			t.Errorf("%g rounds down to %g, expected %g", v, got, want)
		}
	}
	for i := range 20_000 {
		v := float64(i*i+1) / 977
		if got := RoundDown(v, 3); got > v || got < v*(1-0.0101) {
			t.Errorf("%g rounds down to %g", v, got)
		}
	}
}
