package kernel

import (
	"encoding/csv"
	"fmt"
	"io"
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

// WriteErrorsCSV writes errors as shares.
func WriteErrorsCSV(w io.Writer, all []Errors) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"split", "left_out", "operator", "kernels", "median_error", "median_abs_error", "p95_abs_error",
		"worst_abs_error", "median_beyond_resolution", "p95_beyond_resolution"}) // Flush returns the error
	for _, e := range all {
		record := []string{string(e.Split), e.Left, e.Operator, strconv.Itoa(e.Count)}
		for _, v := range []float64{e.Bias, e.Median, e.P95, e.Worst, e.Beyond, e.BeyondP95} {
			record = append(record, strconv.FormatFloat(v, 'f', 5, 64))
		}
		_ = out.Write(record)
	}
	out.Flush()
	return out.Error()
}
