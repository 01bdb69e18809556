// Package experiment serves the requests of a trace with several systems, and compares them. Its
// command is kvreplay serve.
package experiment

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/systems"
	"github.com/kvreplay/kvreplay/trace"
)

// Experiment has the settings that all systems share. The zero values of fields are the defaults of
// the command, except for those of Engine, Load.Scale and CacheBatch.
type Experiment struct {
	serving.Engine // Options has machine, model, kernels, and the first seed
	Load
	Admission   serving.Admission // without TPOT, which follows from Limits
	Limits      serving.Limits
	Priority    []string
	Synchronous bool // form an iteration after the one before it, as an engine does whose GPU waits for the CPU
	NoReuse     bool // of prefixes

	Goodput float64        // share of requests within their limits at the load to find, 0 for no search
	Repeats int            // number of seeds, 0 for no comparison
	Series  serving.Series // of a recorded run, with or without the times of its requests
	Plots   bool           // collect the curves of results

	// Systems that select entries take their misses from Traces. Their caches are sized for CacheBatch
	// requests. Selection has their other settings.
	Traces     []*trace.File
	CacheBatch int
	Selection  systems.Question

	// Rows and Timelines are folders for the files of each system, or "".
	Rows, Timelines string
	// Progress, if not nil, gets numbers of requests that have ended. Goroutines call it.
	Progress func(requests int)
}

// Run serves the requests with each system. A failure stops the systems that come later, so the error
// is always that of the first system that fails.
func (x *Experiment) Run(ctx context.Context, list []*systems.System) ([]*serving.Result, error) {
	results, err := inOrder(ctx, len(list), func(ctx context.Context, i int) (*serving.Result, error) {
		r, err := x.serve(ctx, list[i])
		if err != nil {
			err = fmt.Errorf("serve %s with %s: %w", x.Path, list[i].Name, err)
		}
		return r, err
	})
	if err == nil && x.Repeats > 0 {
		x.compare(results)
	}
	return results, err
}

// inOrder calls do n times at once. A failure cancels the later calls, and the error is that of the
// first call that fails.
func inOrder[T any](ctx context.Context, n int, do func(ctx context.Context, i int) (T, error)) ([]T, error) {
	results, failures := make([]T, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		// Each context is derived from the one before it, so that a cancellation reaches all later calls.
		own := ctx
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		group.Go(func() {
			if results[i], failures[i] = do(own, i); failures[i] != nil {
				stop()
			}
		})
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// serve runs the seeds of a system, and searches its goodput.
func (x *Experiment) serve(ctx context.Context, s *systems.System) (*serving.Result, error) {
	e, notes, err := x.engine(ctx, s)
	if err != nil {
		return nil, err
	}
	admission := x.Admission
	admission.TPOT = x.Limits.TPOT()
	served, err := serving.NewServed(ctx, e, admission)
	if err != nil {
		return nil, err
	}
	served.Ahead = !x.Synchronous && !x.Engine.Options.Engine.Waits()
	served.NoPrefix = served.NoPrefix || x.NoReuse
	served.Priority, served.Limits = x.Priority, x.Limits
	r := &serving.Result{System: s.Name, Notes: append(notes, served.Notes...)}
	// run serves a seed once and keeps its curves.
	run := func(seed uint64, rows ...serving.Rows) (*serving.Summary, error) {
		timeline := new(serving.Timeline)
		if x.Plots {
			rows = append(rows, serving.Rows{Step: timeline.Step})
		}
		summary, err := served.Summarise(ctx, x.source(seed), 1, append(rows, x.counted())...)
		if err == nil && x.Plots {
			curves := serving.Curves{Timeline: timeline}
			curves.TTFT, curves.TPOT = summary.Percentiles()
			r.Curves = append(r.Curves, curves)
		}
		return summary, err
	}
	compared := serving.Comparison{Requests: x.Recorded, Series: x.Series}
	var rows []serving.Rows
	compares := x.Recorded != nil || x.Series.Samples != nil
	if compares {
		rows = append(rows, compared.Rows())
	}
	var open []*files.File
	for _, out := range []struct {
		folder, ending string
		rows           func(io.Writer) serving.Rows
	}{{x.Rows, ".requests.csv", serving.RequestCSV}, {x.Rows, ".steps.csv", serving.StepCSV}, {x.Timelines, ".json", serving.StepEvents}} {
		if out.folder == "" {
			continue
		}
		file, err := files.Create(filepath.Join(out.folder, strings.ReplaceAll(s.Name, "/", "-")+out.ending))
		if err != nil {
			return nil, err
		}
		defer file.Abort() // unless it is committed
		rows, open = append(rows, out.rows(file)), append(open, file)
	}
	if r.Summary, err = run(x.Seed, rows...); err != nil {
		return nil, err
	}
	for _, file := range open {
		if err := file.Commit(); err != nil {
			return nil, err
		}
	}
	if compares {
		r.Recorded = compared.Differences()
	}
	for k := range uint64(x.Repeats) {
		summary := r.Summary
		if k > 0 {
			if summary, err = run(x.Seed + k); err != nil {
				return nil, err
			}
		}
		r.Seeds = append(r.Seeds, serving.NewSeed(x.Seed+k, summary))
	}
	if x.Goodput > 0 {
		rate, note, err := served.Goodput(ctx, x.source(x.Seed), x.Goodput, x.counted())
		if err != nil {
			return nil, err
		}
		if r.Goodput = &rate; note != "" {
			r.Notes = append(r.Notes, s.Name+": "+note)
		}
	}
	return r, nil
}

// countedAtOnce is the number of requests between calls of Progress.
const countedAtOnce = 256

// counted passes the number of requests that have ended to Progress.
func (x *Experiment) counted() serving.Rows {
	if x.Progress == nil {
		return serving.Rows{}
	}
	n := 0
	return serving.Rows{Request: func(*serving.RequestRow) error {
		if n++; n == countedAtOnce {
			x.Progress(n)
			n = 0
		}
		return nil
	}}
}

// compare compares all systems with the first one over the seeds. Requests are the same for all, so
// that a figure is undefined for all systems or none. A figure that some seed lacks is not compared.
func (x *Experiment) compare(results []*serving.Result) {
	for i, name := range serving.SeedFigures {
		all := make([][]float64, len(results))
		for k, r := range results {
			for _, s := range r.Seeds {
				if v := s.Figures[i]; v != nil {
					all[k] = append(all[k], *v)
				}
			}
		}
		pairs := make([]board.Pair, len(results)-1)
		if len(all[0]) == len(results[0].Seeds) {
			pairs = board.Pairs(all[0], all[1:], x.Seed)
		}
		for k, p := range pairs {
			results[k+1].Compared = append(results[k+1].Compared, serving.Compared{Figure: name, Ratio: p.Ratio, Low: p.Low, High: p.High, P: p.P})
		}
	}
}
