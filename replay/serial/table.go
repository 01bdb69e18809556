package serial

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/kvreplay/kvreplay/internal/table"
)

// WriteTable writes rows as text: misses by access, how many of them are births, misses by steps,
// and the ratio of both. Rows of several traces name theirs.
func WriteTable(w io.Writer, rows []Row) error {
	several := slices.ContainsFunc(rows, func(r Row) bool { return r.Trace != rows[0].Trace })
	t := table.New("trace", "policy", "capacity", "demand", "serial misses", "of births", "step misses", "serial ÷ step").RightFrom(3)
	if !several {
		t = table.New(t.Header[1:]...).RightFrom(2)
	}
	for _, r := range rows {
		cells := []any{r.Trace, r.Policy, r.Capacity, r.Accesses, r.Misses, r.BirthMisses, r.StepMisses, r.overstatement()}
		if !several {
			cells = cells[1:]
		}
		t.Add(cells...)
	}
	_, err := io.WriteString(w, t.Text())
	return err
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
