package board

import (
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Counts add up and the peak is the largest. A count that one tally lacks, the sum lacks too.
func TestSum(t *testing.T) {
	a := tally{task{1, 2, 3}, 4, 5, 6, 7, rowstest.Ptr(int64(8)), rowstest.Ptr(int64(9)), 10, 11, 12, true, 13, 14, 15, true, true}
	b := tally{task{10, 20, 30}, 40, 50, 60, 70, rowstest.Ptr(int64(80)), rowstest.Ptr(int64(90)), 100, 110, 120, true, 130, 140, 150, true, true}
	want := tally{task{11, 22, 33}, 44, 55, 66, 77, rowstest.Ptr(int64(88)), rowstest.Ptr(int64(99)), 110, 110, 132, true, 143, 154, 165, true, true}
	for _, tallies := range [][]tally{{a, b}, {b, a}} {
		if got := sum(tallies); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	b.bytes, b.entriesKnown, b.massKnown, b.coveredKnown = nil, false, false, false
	for _, tallies := range [][]tally{{a, b}, {b, a}} {
		if got := sum(tallies); got.bytes != nil || *got.written != 99 || got.entriesKnown || got.massKnown || got.coveredKnown {
			t.Errorf("got %+v", got)
		}
	}
}
