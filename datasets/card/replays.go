package card

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// replay replays every cell and keeps its counts with the streams. A policy that the
// trace cannot serve is left out.
func (s *source) replay(ctx context.Context, f *trace.File) error {
	for _, group := range [][]int{{0, 1, 2, 3, 4, 5}, {look2, opt2}} {
		o, err := replayOptions(group)
		if err != nil {
			return err
		}
		result, err := replay.Run(ctx, f, o)
		if err != nil {
			return err
		}
		at := map[trace.Key]*facts{}
		for i := range s.streams {
			at[s.streams[i].info.Key] = &s.streams[i].facts
		}
		for i := range result.Rows {
			row := &result.Rows[i]
			key := trace.Key{Request: *row.RequestID, Layer: *row.LayerID, Head: trace.NoHead}
			if row.Head != nil {
				key.Head = *row.Head
			}
			for _, c := range group {
				if cells[c].policy == row.Policy && cells[c].capacity == *row.Capacity {
					at[key].cells[c] = replayed{row.Steps, row.Demand, row.Misses}
				}
			}
		}
	}
	return nil
}

// replayOptions are for a group of cells that is every one of its policies at every one
// of its capacities.
func replayOptions(group []int) (replay.Options, error) {
	o := replay.Options{Per: replay.PerStream, SkipUnable: true}
	var capacities []string
	seen := map[string]bool{}
	for _, c := range group {
		capacities = append(capacities, cells[c].capacity)
		if seen[cells[c].policy] {
			continue
		}
		seen[cells[c].policy] = true
		spec, err := all.Table().Parse(cells[c].policy)
		if err != nil {
			return o, err
		}
		o.Policies = append(o.Policies, spec)
	}
	var err error
	if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
		return o, fmt.Errorf("capacities of the card: %w", err)
	}
	return o, nil
}
