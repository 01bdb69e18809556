package board

import (
	"reflect"
	"testing"
)

// Counts add up and the peak is the largest. A count that one tally lacks, the sum lacks too.
func TestSum(t *testing.T) {
	a := tally{fixedCounts{1, 2, 3}, 4, 5, 6, 7, 8, 9, true, 10, 11, 12, true, 13, 14, 15, true, true}
	b := tally{fixedCounts{10, 20, 30}, 40, 50, 60, 70, 80, 90, true, 100, 110, 120, true, 130, 140, 150, true, true}
	want := tally{fixedCounts{11, 22, 33}, 44, 55, 66, 77, 88, 99, true, 110, 110, 132, true, 143, 154, 165, true, true}
	for _, tallies := range [][]tally{{a, b}, {b, a}} {
		if got := sum(tallies); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	b.bytesKnown, b.entriesKnown, b.massKnown, b.coveredKnown = false, false, false, false
	for _, tallies := range [][]tally{{a, b}, {b, a}} {
		if got := sum(tallies); got.bytesKnown || got.entriesKnown || got.massKnown || got.coveredKnown {
			t.Errorf("got %+v", got)
		}
	}
}
