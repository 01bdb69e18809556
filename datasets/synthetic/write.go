package synthetic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
		Model: trace.SyntheticModel, Generator: trace.SyntheticGenerator, Notes: map[string]string{"dials": string(text)}}
	if d.About != "" {
		m.Notes["about"] = d.About
	}
	if d.Local > 0 {
		m.Sink, m.Local = &dials.Sink, &dials.Local
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

// Write writes the trace that d describes to path, a few rows a worker in memory. After an
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
	if err := drawAll(ctx, d, o, w.WriteParts); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("make synthetic trace: stopped, nothing was written to %s: %w", path, ctx.Err())
		}
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	return w.Close()
}

// partRows is how many rows are drawn, and then written, together. It is a multiple of
// trace.RowsPerWrite: the file has the bytes of one whose streams were written as a whole.
const partRows = trace.RowsPerWrite

// parts are what a worker draws, in the order of its streams.
type parts struct {
	drawn, used chan *trace.Stream // used are to be filled again
}

// drawAll draws the streams on several workers and hands them to write in key order.
func drawAll(ctx context.Context, d *Dials, o Options, write func(trace.StreamInfo, iter.Seq2[*trace.Stream, error]) error) error {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, d.streams())
	g, ctx := errgroup.WithContext(ctx)
	drawn := make([]parts, workers)
	for i := range drawn {
		drawn[i] = parts{drawn: make(chan *trace.Stream, 2), used: make(chan *trace.Stream, 2)}
		for range cap(drawn[i].used) {
			drawn[i].used <- new(trace.Stream)
		}
		g.Go(func() error { return drawn[i].draw(ctx, d, i, workers) })
	}
	g.Go(func() error {
		for i := range d.streams() {
			info := d.info(i)
			if err := write(info, drawn[i%workers].of(ctx, info)); err != nil {
				return err
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
func (p parts) draw(ctx context.Context, d *Dials, first, n int) error {
	source := NewSource(d)
	for i := first; i < source.Streams(); i += n {
		info := source.begin(i)
		for left := info.Rows; left > 0; left -= partRows {
			var s *trace.Stream
			select {
			case <-ctx.Done():
				return ctx.Err()
			case s = <-p.used:
			}
			source.rows(info, min(partRows, left), s)
			p.drawn <- s // there is room: no more are in use
		}
	}
	return nil
}

// of gives the parts of the next stream.
func (p parts) of(ctx context.Context, info trace.StreamInfo) iter.Seq2[*trace.Stream, error] {
	return func(yield func(*trace.Stream, error) bool) {
		for left := info.Rows; left > 0; {
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case s := <-p.drawn:
				left -= s.Rows
				if !yield(s, nil) {
					return
				}
				p.used <- s
			}
		}
	}
}
