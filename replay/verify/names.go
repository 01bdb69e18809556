package verify

import (
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Renamed is a trace whose name in rows differs from the name of its file here. A digest identifies
// a trace, not its name. But a board shows the names in rows.
type Renamed struct {
	Stated string `json:"stated"`
	File   string `json:"file"`
}

// nameOf returns the name of a file with the row's digest, preferably the row's own name. taken
// reports whether the row's name is that of another trace here.
func (ts *traces) nameOf(r *result.Row) (name string, taken bool) {
	names := ts.names[r.TraceDigest]
	if slices.Contains(names, r.Trace) {
		return r.Trace, false
	}
	for digest, others := range ts.names {
		taken = taken || digest != r.TraceDigest && slices.Contains(others, r.Trace)
	}
	return strings.Join(names, ", "), taken
}

// rename notes that the row's trace has another name here.
func (r *Report) rename(row *result.Row, file string) {
	if one := (Renamed{row.Trace, file}); !slices.Contains(r.Renamed, one) {
		r.Renamed = append(r.Renamed, one)
	}
}
