package synthetic

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Places are a permutation in the order of the keys.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	var o order
	for range 200 {
		o.keys = o.keys[:0]
		for range r.IntN(600) {
			o.keys = append(o.keys, uint8(r.IntN(1+r.IntN(256))))
		}
		want := slices.Clone(o.keys)
		slices.Sort(want)
		o.count()
		got, taken := make([]uint8, len(want)), make([]bool, len(want))
		for i, key := range o.keys {
			at := o.place(i)
			if taken[at] {
				t.Fatalf("keys %v: place %d is given twice", o.keys, at)
			}
			got[at], taken[at] = key, true
		}
		if !slices.Equal(got, want) {
			t.Fatalf("keys %v come as %v", o.keys, got)
		}
	}
}

// Each shuffle is another permutation, in which the far come early, but not always.
func TestShuffles(t *testing.T) {
	var o order
	h := make([]uint8, 400)
	for i := range h {
		h[i] = bucketOf(uint16(1+(len(h)-i)/4), forever)
	}
	shuffles := o.shuffles(noises, h, source(1, 0, 0, 0, 0), nil)
	if len(shuffles) != noises {
		t.Fatalf("%d shuffles, expected %d", len(shuffles), noises)
	}
	for v, places := range shuffles {
		sorted, far, swapped := slices.Clone(places), 0, false
		slices.Sort(sorted)
		for i, x := range sorted {
			if int(x) != i {
				t.Fatalf("shuffle %d: place %d is missing", v, i)
			}
		}
		for i, x := range places[:100] {
			far += int(x)
			swapped = swapped || i > 0 && x < places[i-1]
		}
		if mean := far / 100; mean > 180 || !swapped {
			t.Errorf("shuffle %d: the farthest quarter stands at %d of 400 on average, expected before 200 and shuffled (%v)", v, mean, swapped)
		}
		if v > 0 && slices.Equal(places, shuffles[0]) {
			t.Errorf("shuffle %d is the first once more", v)
		}
	}
	if n := len(o.shuffles(noises, make([]uint8, mostPlaces/2), source(1, 0, 0, 0, 0), nil)); n != 2 {
		t.Errorf("%d shuffles of half of mostPlaces, expected 2", n)
	}
}
