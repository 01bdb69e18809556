package pipeline

import "testing"

// Merged, adjacent misses are one piece, of those in host memory and on the SSD apart. How
// the two lie among each other a profile does not say: host memory has as many runs as it
// must have.
func TestPiecesByHand(t *testing.T) {
	p := read(t, realProfile(t))
	r, err := newRunner(t.Context(), p, options(t, p, "sequential"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		counts       Counts
		merge        bool
		pieces, read float64 // over the link, from the SSD
	}{
		"each its own":         {Counts{Misses: 10, Runs: 6, SSDMisses: 4, SSDRuns: 3}, false, 10, 4},
		"apart":                {Counts{Misses: 10, Runs: 6, SSDMisses: 4, SSDRuns: 3}, true, 3 + 3, 3},
		"one run, every other": {Counts{Misses: 9, Runs: 1, SSDMisses: 4, SSDRuns: 4}, true, 3 + 4, 4},
		"one run, its halves":  {Counts{Misses: 8, Runs: 1, SSDMisses: 4, SSDRuns: 1}, true, 1 + 1, 1},
		"all on the SSD":       {Counts{Misses: 4, Runs: 2, SSDMisses: 4, SSDRuns: 2}, true, 2, 2},
		"all in host memory":   {Counts{Misses: 4, Runs: 2}, true, 2, 0},
	} {
		s := sums{Counts: c.counts, requests: 1, entries: 256}
		s.Moved, s.SSDMoved, s.Demand, s.Positions, s.SeqLen = s.Misses, s.SSDMisses, 256, 1, 8192
		r.pricer.Layout.Merge = c.merge
		_, moved, err := r.pricer.Layer(0, &s)
		if err != nil {
			t.Fatal(err)
		}
		if moved.Descriptors != c.pieces || moved.SSDRequests != c.read || moved.H2D != 768*float64(s.Misses) || moved.SSD != 768*float64(s.SSDMisses) {
			t.Errorf("%s: %+v, expected %g pieces and %g reads", name, moved, c.pieces, c.read)
		}
	}
}
