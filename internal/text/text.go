// Package text writes counts, shares and lists for people.
package text

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Count returns "1 cell" or "2 cells".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Union returns the distinct texts of a and b, sorted.
func Union(a []string, b ...string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Ratio returns a ÷ b, NaN for b = 0.
func Ratio(a, b int64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// WriteJSON writes a value as indented JSON and does not escape <, > and &.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
