package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/replay"
)

// Merging is the input of a merge.
type Merging struct {
	Packs    string                        // folder or URL of the packs
	Results  string                        // folder of the results
	Options  replay.Options                // of Batch.Arguments, with the number of workers
	Note     func(trace string, r *Merged) // receives each merged trace, one call at a time
	Progress func(done, total int)
}

// Merged is the result of a trace.
type Merged struct {
	*replay.Result
	Notes []string // remarks about files in the results folder
}

// Merge makes the rows of all traces from the packs of all shards. The files of the results are those
// that `kvreplay replay` writes with the same arguments. It replays nothing, and it changes nothing
// if a pack is missing, damaged or of another batch.
func (b *Batch) Merge(ctx context.Context, m Merging) error {
	if err := b.checkEngine(); err != nil {
		return err
	}
	status, err := b.Status(m.Packs)
	if err != nil {
		return err
	}
	if problems := status.problems(); len(problems) > 0 {
		more := ""
		if len(problems) > 3 {
			more = fmt.Sprintf("\nand %d more", len(problems)-3)
		}
		err = fmt.Errorf("%s%s", strings.Join(problems[:min(3, len(problems))], "\n"), more)
	}
	if err := errors.Join(status.Err(), err); err != nil {
		return fmt.Errorf("nothing is merged: %w", err)
	}
	if m.Options.Store, err = replay.OpenStore(m.Results); err != nil {
		return err
	}
	at, err := readPlace(m.Packs)
	if err != nil {
		return err
	}
	pools, left := make([]*replay.Checkpoint, len(b.Traces)), make([]int, len(b.Traces))
	for _, s := range b.Shards {
		for _, p := range s.Parts {
			left[p.Trace]++
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.SetLimit(max(1, m.Options.Workers))
	turn := make(chan struct{}, 1)
	done := 0
	for i, s := range b.Shards {
		if ctx.Err() != nil {
			break
		}
		pack, err := b.readFinished(at, i)
		if err != nil {
			stop()
			return cmp.Or(g.Wait(), fmt.Errorf("nothing more is merged: %w", err))
		}
		for _, part := range slices.Sorted(maps.Keys(pack.counts)) {
			t := s.Parts[part].Trace
			if pools[t] == nil {
				pools[t] = new(replay.Checkpoint)
			}
			if err := pools[t].Add(pack.counts[part]); err != nil {
				stop()
				return cmp.Or(g.Wait(), fmt.Errorf("pack of shard %d: %w", i, err))
			}
			if left[t]--; left[t] > 0 {
				continue
			}
			counts := pools[t]
			pools[t] = nil
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := b.mergeTrace(&b.Traces[t], counts, m.Options)
				if err != nil {
					stop()
					return err
				}
				turn <- struct{}{}
				defer func() { <-turn }()
				if done++; m.Progress != nil {
					m.Progress(done, len(b.Traces))
				}
				if m.Note != nil {
					m.Note(b.place(b.Traces[t].Path), r)
				}
				return nil
			})
		}
	}
	return cmp.Or(g.Wait(), ctx.Err())
}

// mergeTrace makes the rows of a trace from its counts and keeps them.
func (b *Batch) mergeTrace(t *Trace, counts *replay.Checkpoint, o replay.Options) (*Merged, error) {
	f, job, err := b.open(t, o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := job.SaveRequested(); err != nil {
		return nil, err
	}
	r, err := job.Merge(counts)
	if err != nil {
		return nil, err
	}
	notes, err := job.WriteRows()
	return &Merged{Result: r, Notes: notes}, err
}
