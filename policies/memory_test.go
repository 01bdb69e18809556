package policies

import (
	"slices"
	"testing"
)

// Fill writes every value, and allocates only if the slice is too small.
func TestFill(t *testing.T) {
	s := Fill[int32](nil, 3*stretch+1, 5)
	for _, n := range []int{3*stretch + 1, 2 * stretch, stretch + 1, stretch, 7, 0} {
		filled := Fill(s, n, int32(n))
		if want := slices.Repeat([]int32{int32(n)}, n); !slices.Equal(filled, want) {
			t.Errorf("%d values are not all %d: %v", n, n, filled)
		}
		if n > 0 && &filled[0] != &s[0] {
			t.Errorf("%d values were not written to memory of %d", n, cap(s))
		}
	}
}
