package pipeline

import (
	"strings"
	"testing"
)

// Positions of a step multiply computation and write-back, and leave the misses as they are.
func TestPositions(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Batch = 1024 // bound by arithmetic
	one := priced(t, p, o)
	o.Positions = 4
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "accept, 1 to 4") {
		t.Errorf("%v, expected that the yield is asked for", err)
	}
	o.Accept = 2.8
	four := priced(t, p, o)
	near(t, "fetched", four.H2D, one.H2D)
	near(t, "exposed fetch", four.Causes.Fetch, one.Causes.Fetch)
	near(t, "written back", four.D2H, 4*one.D2H)
	near(t, "TPOT", four.TPOT, four.Mean/2.8)
	if four.Causes.Compute <= one.Causes.Compute {
		t.Errorf("computation takes %g s with four positions, %g with one", four.Causes.Compute, one.Causes.Compute)
	}
	if notes := strings.Join(four.Notes, "\n"); !strings.Contains(notes, "decodes 4 positions") {
		t.Errorf("notes say nothing of positions:\n%s", notes)
	}
}
