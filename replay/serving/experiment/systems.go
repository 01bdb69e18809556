package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/systems"
)

// Selects reports whether a system attends to selected entries, whose misses come from traces.
func Selects(s *systems.System) bool {
	order, err := schedule.Parse(s.Schedule)
	return err == nil && !schedule.AttendsDensely(order)
}

// Partial reports whether a system leaves a share of the tokens uncached, as eLLM does.
func Partial(s *systems.System) bool {
	order, err := schedule.Parse(s.Schedule)
	_, is := order.(*schedule.ELLM)
	return err == nil && is
}

// engine returns the engine of a system, with notes.
func (x *Experiment) engine(ctx context.Context, s *systems.System) (e serving.Engine, notes []string, err error) {
	e = x.Engine
	e.Preempt = cmp.Or(s.Preempt, pipeline.ByRecompute)
	order, err := schedule.Parse(s.Schedule)
	if err != nil {
		return e, nil, err
	}
	own, partial := order.(*schedule.ELLM)
	switch {
	case partial:
		e.Uncached, e.Fused, e.Elastic, e.Preempt = true, own.Fused, true, pipeline.BySwap
	case order == schedule.OnGPU{Dense: true}:
	case schedule.AttendsDensely(order):
		err = fmt.Errorf("schedule %s is not served: choose a system with schedule dense or ellm, or one that selects entries", s.Schedule)
	default:
		e.Sparse, notes, err = x.sparse(ctx, s, order.Traits().Moves)
	}
	return e, notes, err
}

// usualContext is the largest default context for which a cache is sized.
const usualContext = 32768

// sparse replays the traces for a system that selects entries, at the largest capacity that fits.
// Weights, KV and staging get the memory that the engine leaves to them in its largest iteration.
func (x *Experiment) sparse(ctx context.Context, s *systems.System, moves schedule.Moves) (*serving.Sparse, []string, error) {
	if len(x.Traces) == 0 {
		return nil, nil, errors.New("it selects entries, so its misses come from a replay: name traces with --traces")
	}
	o, _, err := serving.NewEngine(ctx, x.Engine)
	if err != nil {
		return nil, nil, err
	}
	q, m := x.Selection, x.Model
	q.Options, q.Turn = x.Options, 1
	q.Occupied = float64(o.Occupied(int64(x.Machine.GPU.Memory.Value)))
	q.Batch, q.Context = x.CacheBatch, cmp.Or(x.Context, min(usualContext, int64(m.Context.Value)))
	rows, err := q.Compare(ctx, []*systems.System{s}, x.Traces)
	if err != nil {
		return nil, nil, err
	}
	r := rows[0]
	if !r.Fits() {
		return nil, nil, fmt.Errorf("it does not fit: %s", r.Verdict)
	}
	tokens := float64(q.Batch) * float64(q.Context)
	held := r.Memory.Cache / float64(m.Entry.Value) / float64(m.Layers.Value) / float64(q.Batch)
	sparse := &serving.Sparse{Index: int64(math.Ceil(r.Memory.Index / tokens)), Staging: int64(r.Memory.Staging),
		Cached: max(1, int(math.Ceil(held))), Copied: moves == schedule.MovesMisses || moves == schedule.MovesQueries,
		Step: memo.Func(func(size serving.SparseSize) (float64, error) {
			at, err := r.At(ctx, 1<<size.Batch, 1<<size.Context)
			if err != nil {
				return 0, err
			}
			return at.Mean, nil
		})}
	kept := fmt.Sprintf("the KV of %d tokens", int(math.Ceil(held)))
	if moves == schedule.MovesNothing {
		sparse.Cached, kept = serving.MostTokens, "all its KV"
	}
	notes := []string{fmt.Sprintf("%s: K is %d tokens, and a request keeps %s on the GPU", s.Name, r.K, kept)}
	for _, n := range r.Approximates {
		notes = append(notes, s.Name+": "+n)
	}
	return sparse, notes, nil
}
