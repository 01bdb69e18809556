package board

import (
	"fmt"
	"testing"
)

// A note names the cells of a trace while they are few, and joins traces with the same cells.
func TestRefsText(t *testing.T) {
	var refs []CellRef
	for n := range 9 {
		refs = append(refs, CellRef{"a", fmt.Sprintf("%dx", n+1)})
	}
	refs = append(refs, CellRef{"b", "1x"}, CellRef{"b", "2x"})
	if got, want := refsText(refs), "a 1x … 9x, b 1x 2x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	refs = append(refs[9:], CellRef{"c", "1x"}, CellRef{"c", "2x"}, CellRef{"d", "2x"}) // b and c have the same
	if got, want := refsText(refs), "each of b, c at 1x 2x, d 2x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
