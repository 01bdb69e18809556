package operator

import "testing"

// A token attends to those before it, at most to K.
func TestSelectedPairs(t *testing.T) {
	for _, c := range []Chunk{{1, 0}, {7, 0}, {8, 0}, {9, 0}, {20, 3}, {5, 7}, {5, 8}, {3, 100}} {
		want := 0.
		for i := range c.Tokens {
			want += float64(min(c.Before+i+1, 8))
		}
		if got := c.Selected(8); got != want {
			t.Errorf("%+v attends to %g selected tokens, expected %g", c, got, want)
		}
	}
}
