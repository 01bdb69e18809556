// Package text writes counts, shares and lists for people.
package text

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/slice"
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

// Ratio returns a ÷ b, or NaN for b = 0.
func Ratio(a, b int64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// Share returns a ÷ b, or nil for b = 0.
func Share(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	return new(float64(a) / float64(b))
}

// None stands for a missing figure.
const None = "–"

// Number formats a figure with a number of decimals. It returns None for nil.
func Number(v *float64, decimals int) string {
	if v == nil {
		return None
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64)
}

// Percent formats a share to a tenth of a percent. It returns None for nil.
func Percent(share *float64) string {
	if share == nil {
		return None
	}
	return strconv.FormatFloat(100**share, 'f', 1, 64) + " %"
}

// Rate formats a figure with a number of significant digits. A larger one has all its whole digits,
// instead of an exponent.
func Rate(v float64, digits int) string {
	if v >= math.Pow10(digits)-0.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// Round rounds a figure to a number of significant digits.
func Round(v float64, digits int) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		panic(err) // ParseFloat reads the output of FormatFloat
	}
	return v
}

// RoundDown rounds a positive figure down to a number of significant digits, or to a whole number if it has more
// whole digits. A limit that holds for v then holds for the printed figure.
func RoundDown(v float64, digits int) float64 {
	if v >= math.Pow10(digits-1) {
		whole := len(strconv.FormatFloat(math.Floor(v), 'f', 0, 64))
		digits = max(digits, whole)
	}
	down := Round(v, digits)
	for step := v * math.Pow10(-digits); down > v; step *= 2 {
		down = Round(v-step, digits)
	}
	return down
}

// WriteJSON writes a value as indented JSON, with <, > and & as they are.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// Ranges returns ascending numbers as texts, with one text for each run: "0", "5", "10-20".
func Ranges[N int | int32](numbers []N) (parts []string) {
	for _, run := range slice.Runs(numbers, func(a, b N) bool { return a+1 == b }) {
		part := fmt.Sprint(run[0])
		if len(run) > 1 {
			part += fmt.Sprintf("-%d", run[len(run)-1])
		}
		parts = append(parts, part)
	}
	return parts
}
