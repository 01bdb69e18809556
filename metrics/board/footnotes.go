package board

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// numbers are digits, with decimals where they have any.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// MergeNotes maps every text to its footnote, and returns the footnotes sorted. Texts
// that differ in numbers alone, as the counts of a warning by request do, share one in
// which a range stands for the number: "by 3–17 blocks".
func MergeNotes(texts []string) (footnotes []string, of map[string]string) {
	alike := map[string][]string{}
	for _, t := range result.Unite(texts, nil) {
		key := numbers.ReplaceAllString(t, "0")
		alike[key] = append(alike[key], t)
	}
	of = map[string]string{}
	for _, same := range alike {
		merged := withRanges(same)
		footnotes = append(footnotes, merged)
		for _, t := range same {
			of[t] = merged
		}
	}
	slices.Sort(footnotes)
	return footnotes, of
}

// withRanges replaces each number in which the texts differ by its range.
func withRanges(texts []string) string {
	found := make([][]string, len(texts))
	for i, t := range texts {
		found[i] = numbers.FindAllString(t, -1)
	}
	n := -1
	return numbers.ReplaceAllStringFunc(texts[0], func(string) string {
		n++
		values := make([]string, len(found))
		for i := range found {
			values[i] = found[i][n]
		}
		low, high := slices.MinFunc(values, compareNumbers), slices.MaxFunc(values, compareNumbers)
		if low == high {
			return low
		}
		return fmt.Sprintf("%s–%s", low, high)
	})
}

// compareNumbers orders numbers by value, whatever their length.
func compareNumbers(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64) // digits always read, as infinity where there are too many
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
