package render

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// mostColumns is the number of capacities that a table for readers shows side by side. Files (JSON,
// CSV) and curves have all capacities.
const mostColumns = 6

// columnMultiples are the multiples of K that a table with more capacities shows.
var columnMultiples = []float64{1, 1.5, 2, 3, 4}

// shownCapacities chooses the capacities that a table shows, by position. capacities are ascending. It
// chooses those nearest to columnMultiples by ratio. If too few are near them, it chooses evenly.
func shownCapacities(capacities []string) (shown []int) {
	if len(capacities) <= mostColumns {
		return slice.Indices(len(capacities))
	}
	for _, multiple := range columnMultiples {
		if i := nearestMultiple(capacities, multiple); i >= 0 {
			shown = append(shown, i)
		}
	}
	if shown = slices.Compact(shown); len(shown) == len(columnMultiples) {
		return shown
	}
	shown = shown[:0]
	for i := range mostColumns {
		shown = append(shown, i*(len(capacities)-1)/(mostColumns-1))
	}
	return shown
}

// nearestMultiple returns the position of the capacity nearest to a multiple of K, -1 if none is a
// multiple.
func nearestMultiple(capacities []string, multiple float64) int {
	at, least := -1, math.Inf(1)
	for i, text := range capacities {
		kind, size := result.CapacitySize(text)
		if off := math.Abs(math.Log(size / multiple)); kind == result.TimesK && off < least {
			at, least = i, off
		}
	}
	return at
}

// columnNotes name the columns that a table omits.
func columnNotes(capacities []string, shown []int) []string {
	if len(shown) == len(capacities) {
		return nil
	}
	return []string{fmt.Sprintf("Shown are %d of %d capacities. Pooled figures cover all of them, and the curves, CSV and JSON show all", len(shown), len(capacities))}
}
