package replay

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/trace"
)

// Result is what a run on one trace gives.
type Result struct {
	Rows  []metrics.Row
	Notes []string // what the user should know: defaults that were used, policies left out
}

// Run replays the trace of f as o says. The rows are the same at any number of
// workers. After an error or a cancelled context there is no result.
func Run(ctx context.Context, f *trace.File, o Options) (*Result, error) {
	p, err := newPlan(f, &o)
	if err != nil {
		return nil, err
	}
	o.Profile.bind(p)
	total, err := p.execute(ctx)
	if err != nil {
		return nil, err
	}
	return &Result{Rows: p.rows(total), Notes: p.notes}, nil
}

// Rows is the number of rows of the trace that Run will replay: the total of Progress.
func Rows(f *trace.File, o Options) (int64, error) {
	p := &plan{file: f, meta: f.Meta(), opt: &o}
	if err := p.selectStreams(); err != nil {
		return 0, err
	}
	var n int64
	for i := range p.streams {
		n += int64(p.selected(i).Rows)
	}
	return n, nil
}

// unitIndices is the work a worker takes at a time, in indices: runs of streams
// within a row group, so that reading stays sequential.
const unitIndices = 1 << 20

// units cuts the selected streams into runs [from, to).
func (p *plan) units() [][2]int {
	var units [][2]int
	from, size := 0, 0
	for i := range p.streams {
		s := p.selected(i)
		if i > from && (size >= unitIndices || s.RowGroup != p.selected(i-1).RowGroup) {
			units = append(units, [2]int{from, i})
			from, size = i, 0
		}
		size += s.Rows * p.meta.Candidates
	}
	return append(units, [2]int{from, len(p.streams)})
}

// failure keeps the error of the first stream, whatever order workers fail in.
type failure struct {
	sync.Mutex
	stream int
	err    error
	any    atomic.Bool
}

func (f *failure) note(stream int, err error) {
	f.Lock()
	defer f.Unlock()
	if f.err == nil || stream < f.stream {
		f.stream, f.err = stream, err
	}
	f.any.Store(true)
}

// execute replays every unit and returns the pooled counts by cell and part.
func (p *plan) execute(ctx context.Context) ([][]tally, error) {
	units := p.units()
	workers := min(max(1, p.opt.Workers), len(units))
	total := p.newTallies()
	var merge sync.Mutex
	var next atomic.Int64
	var failed failure
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error {
			w := newWorker(p)
			defer w.close()
			for !failed.any.Load() { // units begun before a failure are finished: the first error is then unique
				u := int(next.Add(1)) - 1
				if u >= len(units) {
					break
				}
				for i := units[u][0]; i < units[u][1]; i++ {
					if err := ctx.Err(); err != nil {
						p.opt.Profile.stop()
						return err
					}
					if err := w.replay(i); err != nil {
						failed.note(i, err)
						p.opt.Profile.stop()
						break
					}
				}
			}
			merge.Lock()
			defer merge.Unlock()
			addTallies(total, w.tallies)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return total, failed.err
}
