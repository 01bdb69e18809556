// Package derive makes a trace of another: fewer layers, requests, heads or steps, a
// smaller budget, larger blocks, or the union of a layer's heads. A derived trace is
// a pure function of its source and the options: same bytes every time. Its metadata
// note "derived" says what was done to which digest.
//
// Operations apply in this order, whatever the order of the flags:
//
//  1. selection of requests, layers, heads and steps;
//  2. the cut to K and M: of a list with order=rank every prefix is a valid list;
//  3. blocks: tokens become the distinct blocks that hold them;
//  4. the union of the heads of a layer.
//
// What an operation makes meaningless is dropped, never guessed: covered_mass when
// lists get shorter, scores and masses in a union, what the capture measured of the
// selector (exact.recall) when the demand changes.
package derive

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// Result says what was written.
type Result struct {
	Streams int // and their rows and indices
	Rows    int64
	Indices int64
	Skipped int      // selected streams without a row in the range of steps
	Dropped []string // columns that lost their meaning
}

// Derive writes the trace at dst that o makes of the one at src. ctx stops it between
// streams; nothing is written then.
func Derive(ctx context.Context, src, dst string, o Options) (Result, error) {
	if err := files.Check(dst, src); err != nil {
		return Result{}, fmt.Errorf("derive %s: %w", src, err)
	}
	f, err := trace.Open(src)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	r, err := deriveFile(ctx, f, dst, o)
	if err != nil {
		return Result{}, fmt.Errorf("derive %s: %w", src, err)
	}
	return r, nil
}

func deriveFile(ctx context.Context, f *trace.File, dst string, o Options) (Result, error) {
	p, err := newPlan(f, &o)
	if err != nil {
		return Result{}, err
	}
	w, err := trace.Create(dst, p.meta)
	if err != nil {
		return Result{}, err
	}
	defer w.Abort()
	r, err := p.run(ctx, f, w)
	if err != nil {
		return r, err
	}
	return r, w.Close()
}

// plan is what there is to do: checked options, the streams to read, the metadata to write.
type plan struct {
	o       *Options
	meta    trace.Meta // of the result
	digest  string     // of the source
	source  *trace.Meta
	streams []int // of the source, in key order
	cut     int   // longest list to keep
	result  Result
}

func newPlan(f *trace.File, o *Options) (*plan, error) {
	p := &plan{o: o, source: f.Meta(), cut: f.Meta().Candidates}
	if err := p.selectStreams(f); err != nil {
		return nil, err
	}
	return p, p.derivedMeta(f)
}

// run reads, transforms and writes stream after stream.
func (p *plan) run(ctx context.Context, f *trace.File, w *trace.Writer) (Result, error) {
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	var in, out trace.Stream
	var union unionOf
	for n, i := range p.streams {
		if err := ctx.Err(); err != nil {
			return p.result, err
		}
		if err := reader.Read(i, &in); err != nil {
			return p.result, err
		}
		p.transform(&in, &out)
		done := &out
		if p.o.Union {
			if err := union.add(&out); err != nil {
				return p.result, err
			}
			if n+1 < len(p.streams) && sameLayer(f.Streams()[p.streams[n+1]].Key, in.Key) {
				continue // more heads to come
			}
			done = union.stream()
		}
		if err := p.write(w, done); err != nil {
			return p.result, err
		}
	}
	if p.result.Streams == 0 {
		return p.result, p.noSteps(f)
	}
	return p.result, f.Unchanged(p.digest)
}

func (p *plan) write(w *trace.Writer, s *trace.Stream) error {
	if s.Rows == 0 {
		p.result.Skipped++
		return nil
	}
	p.result.Streams++
	p.result.Rows += int64(s.Rows)
	p.result.Indices += int64(len(s.Indices))
	return w.Write(s)
}

func sameLayer(a, b trace.Key) bool { return a.Request == b.Request && a.Layer == b.Layer }

// noSteps is the error of a range of steps that no stream has.
func (p *plan) noSteps(f *trace.File) error {
	first, last := f.Streams()[0].FirstStep, f.Streams()[0].LastStep
	for _, s := range f.Streams() {
		first, last = min(first, s.FirstStep), max(last, s.LastStep)
	}
	if p.o.Steps == nil {
		return errors.New("nothing was selected")
	}
	return fmt.Errorf("no stream has a step in %v; the trace has steps %d to %d", p.o.Steps, first, last)
}
