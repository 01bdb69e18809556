package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/metrics/board"
)

// CurveTraces lists the traces that curves can be drawn of, by name.
func CurveTraces(b *board.Board) []string {
	var traces []string
	for _, t := range b.Traces {
		if len(curvesOn(b, t.Trace)) > 0 {
			traces = append(traces, t.Trace)
		}
	}
	return traces
}

// CurveNames returns a file name for the curves of each trace: "curves-a.svg" for
// a.parquet, "curves-a-cold.svg" with the suffix "-cold", with a number where the name is
// taken, by another trace or in the list.
func CurveNames(b *board.Board, suffix string, taken []string) map[string]string {
	names := map[string]string{}
	taken = slices.Clone(taken)
	for _, trace := range CurveTraces(b) {
		stem := files.SafeName("curves-"+strings.TrimSuffix(trace, ".parquet")) + suffix
		name := stem + ".svg"
		isTaken := func(other string) bool { return strings.EqualFold(other, name) } // one file on some systems
		for n := 2; slices.ContainsFunc(taken, isTaken); n++ {
			name = fmt.Sprintf("%s-%d.svg", stem, n)
		}
		taken = append(taken, name)
		names[trace] = name
	}
	return names
}
