package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Renamed is a trace whose rows name it otherwise than its file is named here. Names do not
// make a trace, digests do; but a board shows what rows state.
type Renamed struct {
	Stated string `json:"stated"`
	File   string `json:"file"`
}

func (r Renamed) text() string {
	return fmt.Sprintf("rows state the trace %s, its file here is %s", r.Stated, r.File)
}

// nameOf is what the file of the row's digest is called, that of the row where one is; taken
// is true where the row's name is that of another trace here.
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
