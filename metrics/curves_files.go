package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// longestStem is what of a trace's name its curves' file has: with what is added it fits
// the 255 bytes that file systems allow.
const longestStem = 200

// CurveTraces lists the traces that curves can be drawn of, by name.
func (b *Board) CurveTraces() []string {
	var traces []string
	for _, t := range b.Traces {
		if len(b.curves(t.Trace)) > 0 {
			traces = append(traces, t.Trace)
		}
	}
	return traces
}

// CurveNames returns a file name for the curves of each trace: "curves-a.svg" for
// a.parquet, "curves-a-cold.svg" with the suffix "-cold", with a number where the name is
// taken, by another trace or in the list.
func (b *Board) CurveNames(suffix string, taken []string) map[string]string {
	names := map[string]string{}
	taken = slices.Clone(taken)
	for _, trace := range b.CurveTraces() {
		stem := unsafeInNames.ReplaceAllString(strings.TrimSuffix(trace, ".parquet"), "_")
		stem = "curves-" + stem[:min(len(stem), longestStem)] + suffix
		name := stem + ".svg"
		for n := 2; slices.Contains(taken, name); n++ {
			name = fmt.Sprintf("%s-%d.svg", stem, n)
		}
		taken = append(taken, name)
		names[trace] = name
	}
	return names
}
