package metrics

import (
	"fmt"
	"testing"
)

func TestDifferences(t *testing.T) {
	a := row("a", "lru", "1x", 40)
	b := a
	b.Warnings, b.DemandMean = []string{}, a.DemandMean*(1+1e-15)
	if d := a.Differences(&b); d != nil {
		t.Errorf("equal rows differ in %v", d)
	}
	b = row("a", "lru", "", 41)
	b.Warnings, b.ResidentMean = []string{"w"}, 0.5
	want := `[{capacity 1x null} {hits 60 59} {misses 40 41} {resident_mean 0 0.5} {warnings [] ["w"]}]`
	if got := fmt.Sprint(a.Differences(&b)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
