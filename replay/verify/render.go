package verify

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// RenderTable writes the report for a terminal: one line per row, then the faults of rows that do
// not hold, and the missing parts.
func (r *Report) RenderTable(w io.Writer) error {
	var out strings.Builder
	out.WriteString(r.table())
	for i := range r.Outcomes {
		out.WriteString(r.Outcomes[i].details())
	}
	switch {
	case len(r.Leaders) > 0:
		fmt.Fprintf(&out, "always in the sample: every cell of the policies on rank 1 (%s), and the row with the lowest × OPT\n", strings.Join(r.Leaders, ", "))
	case r.Sample < r.Rows:
		fmt.Fprintln(&out, "the rows rank no policy, for example without opt, so the sample is random only. --sample all verifies all")
	}
	for _, line := range r.gapLines() {
		fmt.Fprintf(&out, "incomplete: %s\n", line)
	}
	for _, n := range r.Renamed {
		fmt.Fprintf(&out, "other name: trace %s of the rows is the file %s\n", n.Stated, n.File)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&out, "skipped: %s\n", s)
	}
	fmt.Fprintf(&out, "%s\n", r.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// Summary returns the report in one line.
func (r *Report) Summary() string {
	of := fmt.Sprintf("all %d rows", r.Rows)
	if r.Sample < r.Rows {
		of = fmt.Sprintf("%d of %d rows, drawn with seed %d, and %d more of the same cells", r.Sample, r.Rows, r.Seed, r.Others)
	}
	summary := fmt.Sprintf("%s: %d hold, %d differ, %d unverifiable", of, r.Holding, r.Differing, r.Unverifiable)
	if n := len(r.Gaps); n > 0 {
		summary += fmt.Sprintf("; incomplete cells: %d", n)
	}
	return summary
}

func (r *Report) table() string {
	t := table.New("row", "trace", "policy", "capacity", "part", "verdict").Right(0)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		t.Add(o.Row, o.Trace, o.Policy, result.OrDash(o.Capacity), o.Part, o.Verdict)
	}
	return t.Text()
}

// details returns the faults of a row, or "" if it holds.
func (o *Outcome) details() string {
	var out strings.Builder
	if o.Reason != "" {
		fmt.Fprintf(&out, "row %d %s: %s\n", o.Row, o.Verdict, o.Reason)
	}
	for _, d := range o.Differences {
		fmt.Fprintf(&out, "row %d differs: %s %s, replayed %s\n", o.Row, d.Field, d.Stated, d.Replayed)
	}
	return out.String()
}
