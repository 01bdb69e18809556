// Package twin compares a synthetic trace with the trace that it was fitted to, by the misses of
// policies.
package twin

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lookahead"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Table are the policies that are compared, if the trace has their columns.
var Table = policies.NewTable(lru.Entry, lookahead.Entry, opt.Entry)

// Most is the error beyond which a twin does not stand in for its original.
const Most = 0.12

// Worst returns the row of the largest error, up or down. ok is false if there are no rows.
func Worst(rows []Row) (worst Row, ok bool) {
	for _, r := range rows {
		if !ok || math.Abs(r.Error()) > math.Abs(worst.Error()) {
			worst, ok = r, true
		}
	}
	return worst, ok
}

// Capacities of the comparison, in K.
var Capacities = []string{"1.25x", "1.5x", "2x", "3x", "4x"}

// Row is a policy at a capacity on both traces, streams pooled.
type Row struct {
	Policy   string
	Capacity string
	Original int64 // misses
	Twin     int64 // misses for as much demand
}

// Error returns the twin's misses divided by the original's, less 1. It is 0 if both have none, and
// infinite if only the original has none.
func (r Row) Error() float64 {
	switch {
	case r.Original == r.Twin:
		return 0
	case r.Original == 0:
		return math.Inf(1)
	}
	return float64(r.Twin)/float64(r.Original) - 1
}

// requests is the number of requests of a twin per request of its original, so that chance has
// little effect on the error.
const requests = 8

// Check draws a twin of the dials that were fitted to original, in a temporary folder, and compares
// the two.
func Check(ctx context.Context, original *trace.File, d *synthetic.Dials, workers int) ([]Row, error) {
	rows, err := check(ctx, original, d, workers, 0)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// check is Check at each of several K. 0 means the traces' own K.
func check(ctx context.Context, original *trace.File, d *synthetic.Dials, workers int, topKs ...int) (rows [][]Row, err error) {
	dir, err := os.MkdirTemp("", "kvreplay-twin-")
	if err != nil {
		return nil, fmt.Errorf("check twin: %w", err)
	}
	defer os.RemoveAll(dir)
	more := *d
	more.Requests *= requests
	path := filepath.Join(dir, "twin.parquet")
	if err := synthetic.Write(ctx, path, &more, synthetic.Options{Workers: workers}); err != nil {
		return nil, err
	}
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, k := range topKs {
		more, err := compare(ctx, original, f, workers, k)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more)
	}
	return rows, nil
}

// compare replays both traces at K with the policies that they can serve. K 0 is the traces' own.
func compare(ctx context.Context, original, twin *trace.File, workers, topK int) ([]Row, error) {
	a, err := run(ctx, original, workers, topK)
	if err != nil {
		return nil, err
	}
	b, err := run(ctx, twin, workers, topK)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, x := range a {
		for _, y := range b {
			if x.Policy == y.Policy && *x.Capacity == *y.Capacity && y.Demand > 0 {
				scaled := float64(y.Misses) * float64(x.Demand) / float64(y.Demand)
				rows = append(rows, Row{x.Policy, *x.Capacity, x.Misses, int64(math.Round(scaled))})
			}
		}
	}
	return rows, nil
}

func run(ctx context.Context, f *trace.File, workers, topK int) ([]result.Row, error) {
	o := replay.Options{SkipUnable: true, Workers: workers, TopK: topK}
	for _, e := range Table {
		spec, err := Table.Parse(e.Name)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		o.Policies = append(o.Policies, spec)
	}
	var err error
	if o.Capacities, err = replay.ParseCapacities(Capacities); err != nil {
		return nil, err
	}
	result, err := replay.Run(ctx, f, o)
	if err != nil {
		return nil, err
	}
	return result.Rows, nil
}
