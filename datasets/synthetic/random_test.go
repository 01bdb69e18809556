package synthetic

import "testing"

// The first numbers of SplitMix64 from 1234567, from its authors' program.
func TestRandom(t *testing.T) {
	r := random(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := r.Uint64(); got != want {
			t.Errorf("number %d is %d, expected %d", i, got, want)
		}
	}
	for range 1000 {
		if x := r.intN(7); x < 0 || x > 6 {
			t.Fatalf("%d is not below 7", x)
		}
	}
	if *source(1, ofStream, 0, 0, 1) == *source(1, ofStream, 0, 1, 0) || *source(1, ofStream, 0, 0, 0) == *source(2, ofStream, 0, 0, 0) {
		t.Error("sources of different purposes are the same")
	}
}
