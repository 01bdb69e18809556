// Package verify replays a sample of somebody's result rows and says whether they hold.
//
// A row states its trace by digest and every setting that its counts depend on, so it
// can be replayed by anyone who has the trace: Rows draws a seeded sample, replays
// exactly the cell that each row is of, compares every field of all rows of the cell, and
// says which parts of it the rows lack.
package verify

import (
	"context"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
)

const (
	// DefaultSample is the number of rows that are drawn.
	DefaultSample = 20
	// All takes every row.
	All = -1
)

// Options say what is replayed; the zero value of each field but Policies and Traces
// is usable.
type Options struct {
	Policies policies.Table
	Traces   []string         // files, and folders whose *.parquet are taken
	Plans    []*allocate.Plan // of rows under one (replay --allocation), found by their digest
	Where    result.Where     // rows that are drawn from and judged; zero: all
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
	// Trace, Policy, Capacity (null without) and the part name it.
	Trace    string  `json:"trace"`
	Policy   string  `json:"policy"`
	Capacity *string `json:"capacity"`
	Part
	Verdict Verdict `json:"verdict"`
	// Differences are of a row that differs, Reason says why a row cannot be what it
	// states or cannot be replayed.
	Differences []Difference `json:"differences"`
	Reason      string       `json:"reason"`
}

// Report is the outcome for all rows of the sample, in the order of the rows.
type Report struct {
	// Rows is the number of rows that the sample is from; Seed is the sample's, Sample its
	// size.
	Rows   int    `json:"rows"`
	Seed   uint64 `json:"seed"`
	Sample int    `json:"sample"`
	// Leaders are the policies that these rows rank first: a row of each of their cells is in
	// every sample, beside those drawn. None where all rows are taken.
	Leaders []string `json:"leaders"`
	// Others are the other rows of the cells that were replayed: they cost no more, and are
	// compared too.
	Others int `json:"others"`
	// Holding + Differing + Unverifiable is Sample + Others.
	Holding      int `json:"holding"`
	Differing    int `json:"differing"`
	Unverifiable int `json:"unverifiable"`
	// Outcomes are those of the sample, and of the others that do not hold.
	Outcomes []Outcome `json:"outcomes"`
	// Gaps are the cells of the sample that rows have in part only.
	Gaps []Gap `json:"gaps"`
	// Renamed are the traces that rows name otherwise than their files are named here.
	Renamed []Renamed `json:"renamed"`
	// Skipped are files of trace folders that are no sound trace, with the reason.
	Skipped []string `json:"skipped"`
}

// Rows replays a sample of rows. The error is of the work (a trace named that cannot
// be read, a cancelled context), never of a row.
func Rows(ctx context.Context, rows []result.Row, o Options) (*Report, error) {
	var among []int
	for i := range rows {
		if o.Where.Selects(&rows[i]) {
			among = append(among, i)
		}
	}
	drawn := sample(rows, among, o.Sample, o.Seed)
	first := []string{}
	if len(drawn) < len(among) {
		first = append(first, leaders(pick(rows, among))...)
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
	slices.SortFunc(report.Outcomes, func(a, b Outcome) int { return a.Row - b.Row })
	return report, nil
}

// add counts an outcome, and keeps it if it is of the sample or does not hold.
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

func pick(rows []result.Row, at []int) []result.Row {
	picked := make([]result.Row, len(at))
	for i, n := range at {
		picked[i] = rows[n]
	}
	return picked
}

func outcomeOf(rows []result.Row, i int) Outcome {
	r := &rows[i]
	return Outcome{Row: i + 1, Trace: r.Trace, Policy: r.Policy, Capacity: r.Capacity, Part: partOf(r), Differences: []Difference{}}
}
