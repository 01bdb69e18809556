package replay

import (
	"reflect"
	"slices"
	"testing"
)

// Every count is a sum, whatever pools it, but for the peaks.
func TestCountsAdd(t *testing.T) {
	fields := reflect.TypeFor[Counts]()
	peaks := []string{"ResidentPeak", "StagingPeak", "PinnedPeak"}
	var a, b Counts
	for i := range fields.NumField() {
		reflect.ValueOf(&a).Elem().Field(i).SetInt(int64(100 + i))
		reflect.ValueOf(&b).Elem().Field(i).SetInt(int64(1000 + 3*i))
	}
	for _, c := range [][2]Counts{{a, b}, {b, a}} {
		sum := c[0]
		sum.Add(&c[1])
		for i := range fields.NumField() {
			want := int64(1100 + 4*i)
			if slices.Contains(peaks, fields.Field(i).Name) {
				want = int64(1000 + 3*i)
			}
			if got := reflect.ValueOf(sum).Field(i).Int(); got != want {
				t.Errorf("%s: %d, expected %d", fields.Field(i).Name, got, want)
			}
		}
	}
}

// A part's capacities are the least and the most of its streams, none of none. Streams that
// the capacity holds are summed.
func TestTallies(t *testing.T) {
	var sum, part, none tally
	part.add(&Counts{Streams: 1, Misses: 5}, 30, 40, 1)
	part.add(&Counts{Streams: 1, Misses: 7}, 10, 50, 0)
	part.add(&Counts{Streams: 1, Misses: 1}, 20, 20, 1)
	sum.merge(&none)
	sum.merge(&part)
	sum.merge(&none)
	if want := (tally{Counts{Streams: 3, Misses: 13}, 10, 50, 2}); part != want || sum != want {
		t.Errorf("%+v and %+v, expected %+v", part, sum, want)
	}
}
