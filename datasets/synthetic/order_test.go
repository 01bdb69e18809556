package synthetic

import (
	"math"
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

// Each shuffle is a different permutation, in which far elements mostly come early.
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

// Spans are adjacent from the newest departure on, up to the limit of candidates, for any churn.
func TestPlan(t *testing.T) {
	for _, churn := range []float64{1, 3.5, 205, 1 << 15, 1 << 24} {
		for _, near := range []float64{0, 1e-6, 0.25, 1} {
			var p plan
			p.set(near, churn, 4096)
			if near == 0 && len(p.spans) > 0 || near > 0 && len(p.spans) == 0 {
				t.Fatalf("near %v of %v a step: %d spans", near, churn, len(p.spans))
			}
			end := 0.0
			for i, s := range p.spans {
				if begin := float64(s.begin); math.Abs(begin-end) > 4+begin/1e6 {
					t.Fatalf("near %v of %v a step: span %d begins at %v, the one before ends at %v", near, churn, i, begin, end)
				}
				end = float64(s.begin) + float64(s.width)
			}
			if far := reach * churn * float64(p.unit); near > 0 && end < 0.99*far && 2*len(p.spans) < 4095 {
				t.Errorf("near %v of %v a step: spans end at %v, expected %v", near, churn, end, far)
			}
			for _, ranks := range p.ranks {
				if len(ranks) != 4096 {
					t.Fatalf("near %v of %v a step: %d ranks of 4096", near, churn, len(ranks))
				}
			}
		}
	}
}
