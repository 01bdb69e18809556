package cache

import (
	"slices"
	"testing"
)

// equal says what slices.Equal says, wherever lists differ.
func TestEqual(t *testing.T) {
	for n := range 200 {
		a := make([]int32, n)
		for i := range a {
			a[i] = int32(i)
		}
		for at := range n + 1 { // the element that differs, n for none
			b := slices.Clone(a)
			if at < n {
				b[at]++
			}
			if got, want := equal(a, b), slices.Equal(a, b); got != want {
				t.Errorf("%d elements, different at %d: %v, want %v", n, at, got, want)
			}
		}
		if equal(a, append(slices.Clone(a), 0)) {
			t.Errorf("%d and %d elements are equal", n, n+1)
		}
	}
}
