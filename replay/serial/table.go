package serial

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// WriteTable writes rows as text: misses by access, how many of them are births, misses by steps,
// and the ratio of both. Rows of several traces name theirs.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	several := slices.ContainsFunc(rows, func(r Row) bool { return r.Trace != rows[0].Trace })
	if several {
		fmt.Fprint(t, "trace\t")
	}
	fmt.Fprintln(t, "policy\tcapacity\tdemand\tserial misses\tof births\tstep misses\tserial ÷ step")
	for _, r := range rows {
		if several {
			fmt.Fprintf(t, "%s\t", r.Trace)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Policy, r.Capacity, r.Accesses, r.Misses, r.BirthMisses, r.StepMisses, r.overstatement())
	}
	return t.Flush()
}

// overstatement formats Misses ÷ StepMisses.
func (r Row) overstatement() string {
	if r.StepMisses == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(r.Misses)/float64(r.StepMisses))
}

// WriteJSONL writes one row per line.
func WriteJSONL(w io.Writer, rows []Row) error {
	e := json.NewEncoder(w)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("write serial rows: %w", err)
		}
	}
	return nil
}
