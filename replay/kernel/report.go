package kernel

import (
	"fmt"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/table"
)

// ErrorTable is a table of errors in percent.
func ErrorTable(all []Errors) *table.Table {
	t := table.New("left out", "of", "operator", "kernels", "median error %", "median |error| %", "p95 %", "worst %",
		"median beyond clock %", "p95 beyond clock %").RightFrom(3)
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }
	for i, e := range all {
		if i > 0 && (e.Split != all[i-1].Split || e.Left != all[i-1].Left) {
			t.Line()
		}
		t.Add(e.Split, e.Left, e.Operator, e.Count, fmt.Sprintf("%+.1f", 100*e.Bias), percent(e.Median), percent(e.P95),
			percent(e.Worst), percent(e.Beyond), percent(e.BeyondP95))
	}
	return t
}

// ErrorShares is a table of errors as shares, for CSV.
func ErrorShares(all []Errors) *table.Table {
	t := table.New("split", "left_out", "operator", "kernels", "median_error", "median_abs_error", "p95_abs_error",
		"worst_abs_error", "median_beyond_resolution", "p95_beyond_resolution")
	share := func(v float64) string { return strconv.FormatFloat(v, 'f', 5, 64) }
	for _, e := range all {
		t.Add(e.Split, e.Left, e.Operator, e.Count, share(e.Bias), share(e.Median), share(e.P95), share(e.Worst),
			share(e.Beyond), share(e.BeyondP95))
	}
	return t
}
