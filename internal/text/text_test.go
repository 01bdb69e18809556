package text

import "testing"

func TestFigures(t *testing.T) {
	half, none := Share(1, 2), Share(1, 0)
	for got, want := range map[string]string{
		Count(1, "row"): "1 row", Count(0, "row"): "0 rows",
		Number(half, 2): "0.50", Number(none, 2): None,
		Percent(half): "50.0 %", Percent(none): "–",
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
