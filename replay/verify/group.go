package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
)

// group holds the rows of one cell, by their positions.
type group struct {
	cell   cell
	drawn  []int // rows of the sample
	others []int // other rows that may be judged
	all    []int
}

// groupByCell groups the rows of the drawn rows' cells, in the order of the first drawn row.
func groupByCell(rows []result.Row, drawn []int, o *Options) []*group {
	var groups []*group
	of := map[string]*group{}
	isDrawn := make(map[int]bool, len(drawn))
	key := func(i *int) string { return cellOf(&rows[*i]).key() }
	for _, drawn := range slice.Group(drawn, key) {
		g := &group{cell: cellOf(&rows[drawn[0]]), drawn: drawn}
		groups = append(groups, g)
		of[g.cell.key()] = g
		for _, i := range drawn {
			isDrawn[i] = true
		}
	}
	for i := range rows {
		g := of[key(&i)]
		if g == nil {
			continue
		}
		g.all = append(g.all, i)
		if !isDrawn[i] && o.Where.Selects(&rows[i]) {
			g.others = append(g.others, i)
		}
	}
	return groups
}

// finding is the result of replaying a cell: rows of its policy and of the tiers of the run, or a
// verdict on all rows.
type finding struct {
	replayed []result.Row
	twins    map[twinKey]*result.Row // twins of the rows in replayed
	verdict  Verdict
	reason   string
}

// verify replays the cell, judges its rows and looks for missing rows.
func (g *group) verify(ctx context.Context, rows []result.Row, ts *traces, o *Options, report *Report) error {
	f, err := g.replay(ctx, &rows[g.drawn[0]], ts, o)
	if err != nil {
		return err
	}
	for _, at := range g.drawn {
		report.add(judged(rows, at, f, ts, report), true)
	}
	if f.verdict != "" {
		return nil // the cell was not replayed
	}
	for _, at := range g.others {
		report.add(judged(rows, at, f, ts, report), false)
	}
	report.Gaps = append(report.Gaps, g.gaps(rows, f)...)
	return nil
}

// replay runs the cell. The error is that of a cancelled context or an unreadable trace.
func (g *group) replay(ctx context.Context, r *result.Row, ts *traces, o *Options) (f finding, err error) {
	if r.Engine != replay.EngineVersion {
		return finding{verdict: Unverifiable, reason: fmt.Sprintf("engine version %s wrote the row, this program has version %s: replay again", r.Engine, replay.EngineVersion)}, nil
	}
	specs, own, err := g.cell.specs(o.Policies)
	if err != nil {
		return finding{verdict: Unverifiable, reason: err.Error()}, nil
	}
	file, why := ts.find(r)
	if file == nil {
		return finding{verdict: Unverifiable, reason: why}, nil
	}
	options, err := g.cell.options(file, specs, o)
	if errors.As(err, new(missing)) {
		return finding{verdict: Unverifiable, reason: err.Error()}, nil
	}
	if err != nil {
		return finding{verdict: Differs, reason: err.Error()}, nil
	}
	options.Workers = o.Workers
	job, err := replay.Plan(file, options)
	if err != nil {
		return finding{verdict: Differs, reason: err.Error()}, nil
	}
	replayed, err := job.Run(ctx)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || unread(err):
		return f, err
	case err != nil:
		return finding{verdict: Unverifiable, reason: err.Error()}, nil
	}
	f.replayed = slice.Filter(replayed.Rows, func(row result.Row) bool { return row.Tier > 0 || row.Policy == own })
	f.twins = make(map[twinKey]*result.Row, len(f.replayed))
	for i := range f.replayed {
		f.twins[twinKeyOf(&f.replayed[i])] = &f.replayed[i]
	}
	return f, nil
}

// judged compares a row with its twin of the replay. The trace was found by its digest. If its file
// has another name here, judged notes that. If another trace has this name, it is a difference.
func judged(rows []result.Row, at int, f finding, ts *traces, report *Report) Outcome {
	r := &rows[at]
	o := Outcome{Row: at + 1, Trace: r.Trace, Policy: r.Policy, Capacity: r.Capacity, Part: partOf(r), Differences: []Difference{}}
	if f.verdict != "" {
		o.Verdict, o.Reason = f.verdict, f.reason
		return o
	}
	twin := f.twins[twinKeyOf(r)]
	if twin == nil {
		o.Verdict, o.Reason = Differs, "the replay has no row of this part of the cell"
		return o
	}
	o.Verdict = Holds
	for _, d := range r.Differences(twin) {
		if d.Field == "trace" {
			name, taken := ts.nameOf(r)
			if name != r.Trace {
				report.rename(r, name)
			}
			if d.Other = name; !taken {
				continue
			}
		}
		o.Verdict = Differs
		o.Differences = append(o.Differences, Difference{d.Field, d.This, d.Other})
	}
	return o
}
