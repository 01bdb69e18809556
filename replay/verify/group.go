package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/replay"
)

// group is the sampled rows of one cell.
type group struct {
	cell cell
	rows []int // positions
}

// groupByCell groups rows in the order of their first.
func groupByCell(rows []metrics.Row, picked []int) []*group {
	var groups []*group
	of := map[cell]*group{}
	for _, i := range picked {
		c := cellOf(&rows[i])
		g := of[c]
		if g == nil {
			g = &group{cell: c}
			of[c] = g
			groups = append(groups, g)
		}
		g.rows = append(g.rows, i)
	}
	return groups
}

// finding is what replaying a cell came to: rows of its policy and of the tiers of the
// run, or a verdict on all.
type finding struct {
	replayed []metrics.Row
	verdict  Verdict
	reason   string
}

// verify replays the cell and judges its rows.
func (g *group) verify(ctx context.Context, rows []metrics.Row, ts *traces, o *Options) ([]Outcome, error) {
	f, err := g.replay(ctx, &rows[g.rows[0]], ts, o)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(g.rows))
	for i, at := range g.rows {
		outcomes[i] = outcomeOf(rows, at)
		outcomes[i].judge(&rows[at], f)
	}
	return outcomes, nil
}

// replay runs the cell. The error is a cancelled context.
func (g *group) replay(ctx context.Context, r *metrics.Row, ts *traces, o *Options) (f finding, err error) {
	if r.Engine != replay.EngineVersion {
		return finding{nil, Unverifiable, fmt.Sprintf("the row is of engine version %s, this program has %s", r.Engine, replay.EngineVersion)}, nil
	}
	specs, own, err := g.cell.specs(o.Policies)
	if err != nil {
		return finding{nil, Unverifiable, err.Error()}, nil
	}
	file, why := ts.find(r)
	if file == nil {
		return finding{nil, Unverifiable, why}, nil
	}
	options, err := g.cell.options(file, specs, o)
	if errors.As(err, new(missing)) {
		return finding{nil, Unverifiable, err.Error()}, nil
	}
	if err != nil {
		return finding{nil, Differs, err.Error()}, nil
	}
	options.Workers = o.Workers
	job, err := replay.Plan(file, options)
	if err != nil {
		return finding{nil, Differs, err.Error()}, nil
	}
	result, err := job.Run(ctx)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return f, err
	case err != nil:
		return finding{nil, Unverifiable, err.Error()}, nil
	}
	for _, row := range result.Rows {
		if row.Tier > 0 || row.Policy == own {
			f.replayed = append(f.replayed, row)
		}
	}
	return f, nil
}

// judge compares a row with its twin of the replay.
func (o *Outcome) judge(r *metrics.Row, f finding) {
	if f.verdict != "" {
		o.Verdict, o.Reason = f.verdict, f.reason
		return
	}
	twin := twinOf(r, f.replayed)
	if twin == nil {
		o.Verdict, o.Reason = Differs, "replay gives no row of this part of the cell"
		return
	}
	o.Verdict = Holds
	for _, d := range r.Differences(twin) {
		if d.Field != "trace" { // found by its digest, under whatever name
			o.Verdict = Differs
			o.Differences = append(o.Differences, Difference{d.Field, d.This, d.Other})
		}
	}
}

// twinOf finds the row of the same cache and part; nil where there is none.
func twinOf(r *metrics.Row, replayed []metrics.Row) *metrics.Row {
	for i := range replayed {
		t := &replayed[i]
		if sameCache(r, t) && same(r.RequestID, t.RequestID) && same(r.LayerID, t.LayerID) && same(r.Head, t.Head) {
			return t
		}
	}
	return nil
}

// sameCache says whether two rows of a cell are of the same cache: the GPU's, or the same
// tier below.
func sameCache(a, b *metrics.Row) bool { return a.Tier == b.Tier && a.Above == b.Above }

func same[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
