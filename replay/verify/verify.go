// Package verify replays a sample of somebody's result rows and says whether they hold.
//
// A row states its trace by digest and every setting that its counts depend on, so it
// can be replayed by anyone who has the trace: Rows draws a seeded sample, replays
// exactly the cell that each row is of, and compares every field.
package verify

import (
	"context"
	"slices"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/allocate"
)

const (
	// DefaultSample is the number of rows that are replayed.
	DefaultSample = 20
	// All is the sample of every row.
	All = -1
)

// Options say what is replayed; the zero value of each field but Policies and Traces
// is usable.
type Options struct {
	Policies policies.Table
	Traces   []string         // files, and folders whose *.parquet are taken
	Plans    []*allocate.Plan // of rows under one (replay --allocation), found by their digest
	Sample   int              // rows; 0: DefaultSample, All: every row
	Seed     uint64           // of the sample
	Workers  int              // 0: one
	// Progress is told before every cell how many of how many are done.
	Progress func(done, cells int)
}

// Verdict is what a replay says of a row.
type Verdict string

// The verdicts.
const (
	Holds        Verdict = "holds"        // every field is as replayed
	Differs      Verdict = "differs"      // it is not what its trace and settings give
	Unverifiable Verdict = "unverifiable" // it cannot be replayed here
)

// Difference is a field of a row and what replaying gave for it.
type Difference struct {
	Field    string `json:"field"`
	Stated   string `json:"stated"`
	Replayed string `json:"replayed"`
}

// Outcome is the verdict on one row.
type Outcome struct {
	// Row counts the rows as they were read, from 1.
	Row int `json:"row"`
	// Trace, Policy, Capacity (null without), RequestID, LayerID and Head name it.
	Trace     string  `json:"trace"`
	Policy    string  `json:"policy"`
	Capacity  *string `json:"capacity"`
	RequestID *string `json:"request_id"`
	LayerID   *int32  `json:"layer_id"`
	Head      *int32  `json:"head"`
	Verdict   Verdict `json:"verdict"`
	// Differences are of a row that differs, Reason says why a row cannot be what it
	// states or cannot be replayed.
	Differences []Difference `json:"differences"`
	Reason      string       `json:"reason"`
}

// Report is the outcome for all rows of the sample, in the order of the rows.
type Report struct {
	// Rows is the number of rows that the sample is from; Seed is the sample's.
	Rows int    `json:"rows"`
	Seed uint64 `json:"seed"`
	// Holding + Differing + Unverifiable is the size of the sample.
	Holding      int       `json:"holding"`
	Differing    int       `json:"differing"`
	Unverifiable int       `json:"unverifiable"`
	Outcomes     []Outcome `json:"outcomes"`
	// Skipped are files of trace folders that are no sound trace, with the reason.
	Skipped []string `json:"skipped"`
}

// Rows replays a sample of rows. The error is of the work (a trace named that cannot
// be read, a cancelled context), never of a row.
func Rows(ctx context.Context, rows []metrics.Row, o Options) (*Report, error) {
	picked := sample(len(rows), o.Sample, o.Seed)
	report := &Report{Rows: len(rows), Seed: o.Seed, Outcomes: []Outcome{}, Skipped: []string{}}
	wanted := map[string]bool{}
	for _, i := range picked {
		wanted[rows[i].TraceDigest] = true
	}
	ts, err := openTraces(o.Traces, wanted)
	if err != nil {
		return nil, err
	}
	defer ts.close()
	report.Skipped = append(report.Skipped, ts.skipped...)
	groups := groupByCell(rows, picked)
	for done, g := range groups {
		if o.Progress != nil {
			o.Progress(done, len(groups))
		}
		outcomes, err := g.verify(ctx, rows, ts, &o)
		if err != nil {
			return nil, err
		}
		report.Outcomes = append(report.Outcomes, outcomes...)
	}
	report.finish()
	return report, nil
}

// finish sorts and counts.
func (r *Report) finish() {
	slices.SortFunc(r.Outcomes, func(a, b Outcome) int { return a.Row - b.Row })
	for _, o := range r.Outcomes {
		switch o.Verdict {
		case Holds:
			r.Holding++
		case Differs:
			r.Differing++
		default:
			r.Unverifiable++
		}
	}
}

func outcomeOf(rows []metrics.Row, i int) Outcome {
	r := &rows[i]
	return Outcome{Row: i + 1, Trace: r.Trace, Policy: r.Policy, Capacity: r.Capacity, RequestID: r.RequestID,
		LayerID: r.LayerID, Head: r.Head, Differences: []Difference{}}
}
