package result_test

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestDifferences(t *testing.T) {
	a := rowstest.Row("a", "lru", "1x", 40)
	b := a
	b.Warnings, b.DemandMean = []string{}, a.DemandMean*(1+1e-15)
	if d := a.Differences(&b); d != nil {
		t.Errorf("equal rows differ in %v", d)
	}
	b = rowstest.Row("a", "lru", "", 41)
	b.Warnings, b.ResidentMean = []string{"w"}, 0.5
	want := `[{capacity 1x null} {hits 60 59} {misses 40 41} {resident_mean 0 0.5} {warnings [] ["w"]}]`
	if got := fmt.Sprint(a.Differences(&b)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
