package synthetic

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/trace"
)

// Meta is the metadata of the trace that d describes.
func (d *Dials) Meta() (trace.Meta, error) {
	dials := *d
	dials.About = ""
	text, err := json.Marshal(dials)
	if err != nil {
		return trace.Meta{}, err
	}
	m := trace.Meta{Order: d.Order, TopK: d.TopK, Candidates: d.Candidates, BlockTokens: 1, EntryBytes: d.EntryBytes,
		Model: "synthetic", Generator: "kvreplay datasets make synthetic", Notes: map[string]string{"dials": string(text)}}
	if d.About != "" {
		m.Notes["about"] = d.About
	}
	if d.Scores > 0 {
		m.ScoreKind = "softmax"
	}
	return m, nil
}

// Options say how a trace is written.
type Options struct {
	// Workers draw streams, each one at a time; 0: one for each CPU. The bytes written
	// do not depend on it.
	Workers int
	// Progress is told of streams that were written; may be nil.
	Progress func(streams int)
}

// Write writes the trace that d describes to path, a stream a worker in memory. After an
// error, or when ctx is cancelled, nothing is left behind.
func Write(ctx context.Context, path string, d *Dials, o Options) (err error) {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	m, err := d.Meta()
	if err != nil {
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	w, err := trace.Create(path, m)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := drawAll(ctx, d, o, w.Write); err != nil {
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	return w.Close()
}

// drawAll draws the streams on several workers and hands them to write in key order.
func drawAll(ctx context.Context, d *Dials, o Options, write func(*trace.Stream) error) error {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, d.streams())
	g, ctx := errgroup.WithContext(ctx)
	drawn, used := make([]chan *trace.Stream, workers), make([]chan *trace.Stream, workers)
	for i := range workers {
		drawn[i], used[i] = make(chan *trace.Stream), make(chan *trace.Stream, 1)
		used[i] <- new(trace.Stream)
		g.Go(func() error { return draw(ctx, d, i, workers, used[i], drawn[i]) })
	}
	g.Go(func() error {
		for i := range d.streams() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case s := <-drawn[i%workers]:
				if err := write(s); err != nil {
					return err
				}
				used[i%workers] <- s
			}
			if o.Progress != nil {
				o.Progress(1)
			}
		}
		return nil
	})
	return g.Wait()
}

// draw draws every n-th stream from the first on.
func draw(ctx context.Context, d *Dials, first, n int, used <-chan *trace.Stream, drawn chan<- *trace.Stream) error {
	source := NewSource(d)
	for i := first; i < source.Streams(); i += n {
		var s *trace.Stream
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s = <-used:
		}
		source.Stream(i, s)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case drawn <- s:
		}
	}
	return nil
}
