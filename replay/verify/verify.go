// Package verify replays a sample of result rows and reports whether they hold.
//
// A row states its trace by digest and every setting that its counts depend on. So anyone with the
// trace can replay it. Rows draws a seeded sample and replays exactly the cell of each row. It
// compares every field of all rows of the cell, and reports the parts of the cell without rows.
package verify

import (
	"context"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
)

const (
	// DefaultSample is the default number of drawn rows.
	DefaultSample = 20
	// All draws every row.
	All = -1
)

// Options select the replay. The zero value of each field except Policies and Traces is usable.
type Options struct {
	Policies policies.Table
	Traces   []string         // files, and folders whose *.parquet are used
	Plans    []*allocate.Plan // plans of rows with one (replay --allocation), found by their digest
	Where    result.Where     // rows to draw from and to judge, zero for all
	Sample   int              // number of rows, 0 for DefaultSample, All for every row
	Seed     uint64           // seed of the sample
	Workers  int              // 0 means one
	// Progress is called before every cell with the number of finished cells and the total.
	Progress func(done, cells int)
}

// Verdict is the result of a replay for a row.
type Verdict string

// The verdicts.
const (
	Holds        Verdict = "holds"        // every field equals that of the replay
	Differs      Verdict = "differs"      // its trace and settings give other values
	Unverifiable Verdict = "unverifiable" // it cannot be replayed here
)

// Difference is a field of a row and its value in the replay.
type Difference struct {
	Field    string `json:"field"`
	Stated   string `json:"stated"`
	Replayed string `json:"replayed"`
}

// Outcome is the verdict on one row.
type Outcome struct {
	// Row is the number of the row in the input, from 1.
	Row int `json:"row"`
	// Trace, Policy, Capacity (null without) and the part identify it.
	Trace    string  `json:"trace"`
	Policy   string  `json:"policy"`
	Capacity *string `json:"capacity"`
	Part
	Verdict Verdict `json:"verdict"`
	// Differences are set for a row that differs. Reason states why a row is impossible or cannot
	// be replayed.
	Differences []Difference `json:"differences"`
	Reason      string       `json:"reason"`
}

// Report holds the outcomes for all rows of the sample, in the order of the rows.
type Report struct {
	// Rows is the number of rows that the sample is drawn from. Seed is the seed of the sample, and
	// Sample its size.
	Rows   int    `json:"rows"`
	Seed   uint64 `json:"seed"`
	Sample int    `json:"sample"`
	// Leaders are the policies that these rows rank first. Every sample includes a row of each of
	// their cells, in addition to the drawn rows. Leaders is empty if all rows are taken.
	Leaders []string `json:"leaders"`
	// Others is the number of other rows in the replayed cells. They cost nothing more and are also
	// compared.
	Others int `json:"others"`
	// Holding + Differing + Unverifiable is Sample + Others.
	Holding      int `json:"holding"`
	Differing    int `json:"differing"`
	Unverifiable int `json:"unverifiable"`
	// Outcomes are the outcomes of the sample, and of the other rows that do not hold.
	Outcomes []Outcome `json:"outcomes"`
	// Gaps are the cells of the sample with missing rows.
	Gaps []Gap `json:"gaps"`
	// Renamed are the traces whose name in rows differs from that of their files here.
	Renamed []Renamed `json:"renamed"`
	// Skipped are files of trace folders that are not valid traces, with the reason.
	Skipped []string `json:"skipped"`
}

// Rows replays a sample of rows. The error is about the work (a named trace that cannot be read, a
// cancelled context), never about a row.
func Rows(ctx context.Context, rows []result.Row, o Options) (*Report, error) {
	among := slice.Filter(slice.Indices(len(rows)), func(i int) bool { return o.Where.Selects(&rows[i]) })
	drawn := sample(rows, among, o.Sample, o.Seed)
	first := []string{}
	if len(drawn) < len(among) {
		first = append(first, leaders(slice.Map(among, func(n int) result.Row { return rows[n] }))...)
		drawn = append(drawn, claims(rows, among, first)...)
		slices.Sort(drawn)
		drawn = slices.Compact(drawn)
	}
	report := &Report{Rows: len(among), Seed: o.Seed, Sample: len(drawn), Leaders: first, Outcomes: []Outcome{}, Gaps: []Gap{}, Renamed: []Renamed{}, Skipped: []string{}}
	wanted := map[string]bool{}
	for _, i := range drawn {
		wanted[rows[i].TraceDigest] = true
	}
	ts, err := openTraces(ctx, o.Traces, wanted)
	if err != nil {
		return nil, err
	}
	defer ts.close()
	report.Skipped = append(report.Skipped, ts.skipped...)
	groups := groupByCell(rows, drawn, &o)
	for done, g := range groups {
		if o.Progress != nil {
			o.Progress(done, len(groups))
		}
		if err := g.verify(ctx, rows, ts, &o, report); err != nil {
			return nil, err
		}
	}
	slice.Sort(report.Outcomes, func(a, b Outcome) int { return a.Row - b.Row })
	return report, nil
}

// add counts an outcome. It keeps the outcome if it belongs to the sample or does not hold.
func (r *Report) add(o Outcome, drawn bool) {
	switch o.Verdict {
	case Holds:
		r.Holding++
	case Differs:
		r.Differing++
	default:
		r.Unverifiable++
	}
	if !drawn {
		r.Others++
	}
	if drawn || o.Verdict != Holds {
		r.Outcomes = append(r.Outcomes, o)
	}
}
