// Package derive makes a trace from another: fewer layers, requests, heads or steps, a smaller
// budget, larger blocks, or the union of a layer's heads. A derived trace is a pure function of its
// source and the options, with the same bytes every time. Its metadata note "derived" states the
// options and the digest of the source.
//
// Operations apply in this order, whatever the order of the flags:
//
//  1. the selection of requests, layers, heads and steps
//  2. the cut to K and M: every prefix of a list with order=rank is a valid list
//  3. blocks: tokens become the distinct blocks that hold them
//  4. the union of the heads of a layer
//
// Derive drops columns that an operation makes meaningless, and never guesses their values. It
// drops covered_mass when lists get shorter, and scores and masses in a union. When the demand
// changes, it also drops the selector's measurements at capture (exact.recall), or takes those
// that capture made at the new K.
package derive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// Result describes the written trace.
type Result struct {
	Streams int // written, with their rows and indices
	Rows    int64
	Indices int64
	Skipped int      // selected streams without a row in the range of steps
	Dropped []string // columns that lost their meaning
}

// Derive writes a trace at dst: the trace at src after the operations of o. If ctx ends between
// streams, it writes nothing.
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
	d := &derivation{o: &o, from: f.Meta(), cut: f.Meta().Candidates}
	if err := d.selectStreams(f); err != nil {
		return Result{}, err
	}
	if err := d.derivedMeta(f); err != nil {
		return Result{}, err
	}
	w, err := trace.Create(dst, d.meta)
	if err != nil {
		return Result{}, err
	}
	defer w.Abort()
	r, err := d.run(ctx, f, w)
	if err != nil {
		return r, err
	}
	return r, w.Close()
}

// derivation holds the checked options, the streams to read and the metadata to write.
type derivation struct {
	o       *Options
	meta    trace.Meta  // of the result
	digest  string      // of the source
	from    *trace.Meta // of the source
	streams []int       // indices of the source's streams, in key order
	cut     int         // longest list to keep
	result  Result
}

// run reads, transforms and writes stream after stream.
func (d *derivation) run(ctx context.Context, f *trace.File, w *trace.Writer) (Result, error) {
	f.Expect(d.streams, trace.ReadAll)
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	var in, out trace.Stream
	var union unionOf
	for n, i := range d.streams {
		if err := ctx.Err(); err != nil {
			return d.result, err
		}
		if err := reader.Read(i, &in); err != nil {
			return d.result, err
		}
		d.transform(&in, &out)
		done := &out
		if d.o.Union {
			if err := union.add(&out); err != nil {
				return d.result, err
			}
			if n+1 < len(d.streams) {
				next := f.Streams()[d.streams[n+1]].Key
				if next.Request == in.Request && next.Layer == in.Layer {
					continue // more heads of this layer follow
				}
			}
			done = union.stream()
		}
		if err := d.write(w, done); err != nil {
			return d.result, err
		}
	}
	if d.result.Streams == 0 {
		return d.result, d.noSteps(f)
	}
	return d.result, f.Unchanged(d.digest)
}

func (d *derivation) write(w *trace.Writer, s *trace.Stream) error {
	if s.Rows == 0 {
		d.result.Skipped++
		return nil
	}
	d.result.Streams++
	d.result.Rows += int64(s.Rows)
	d.result.Indices += int64(len(s.Indices))
	return w.Write(s)
}

// noSteps returns the error for a range of steps that no stream has.
func (d *derivation) noSteps(f *trace.File) error {
	first, last := f.Streams()[0].FirstStep, f.Streams()[0].LastStep
	for _, s := range f.Streams() {
		first, last = min(first, s.FirstStep), max(last, s.LastStep)
	}
	if d.o.Steps == nil {
		return errors.New("the source has no stream")
	}
	return fmt.Errorf("no stream has a step in %v, the trace has steps %d to %d", d.o.Steps, first, last)
}

// Options are the operations. The zero value copies the trace.
type Options struct {
	// TopK is the new K, in blocks. 0 keeps the source's.
	TopK int
	// Candidates is the new M, in blocks. Lists are cut to this length. 0 keeps the source's.
	Candidates int
	// BlockTokens is the new block size in tokens, a multiple of the source's. 0 keeps it.
	BlockTokens int
	// Requests, Layers and Heads select streams. nil selects all.
	Requests []string
	Layers   []int32
	Heads    []int32
	// Union merges the heads of a layer into one stream.
	Union bool
	// Steps selects rows. nil selects all.
	Steps *Steps
}

// Steps is the half-open range of steps From ≤ t < To.
type Steps struct{ From, To int32 }

// ParseSteps reads "-32:64", "0:" or ":64".
func ParseSteps(text string) (*Steps, error) {
	from, to, ok := strings.Cut(text, ":")
	s := Steps{math.MinInt32, math.MaxInt32}
	bad := !ok || from == "" && to == ""
	for _, end := range []struct {
		text string
		dst  *int32
	}{{from, &s.From}, {to, &s.To}} {
		if end.text == "" {
			continue
		}
		v, err := strconv.ParseInt(end.text, 10, 32)
		bad = bad || err != nil
		*end.dst = int32(v)
	}
	if bad || s.From >= s.To {
		return nil, fmt.Errorf("steps %q: expected FROM:TO with FROM < TO (TO excluded), as in -32:64, 0: or :64", text)
	}
	return &s, nil
}

// String returns the range in the form that ParseSteps reads.
func (s *Steps) String() string {
	from, to := "", ""
	if s.From != math.MinInt32 {
		from = strconv.Itoa(int(s.From))
	}
	if s.To != math.MaxInt32 {
		to = strconv.Itoa(int(s.To))
	}
	return from + ":" + to
}

// String returns the options as flags of `kvreplay derive`, in a fixed order with sorted lists.
func (o *Options) String() string {
	var flags []string
	add := func(name, value string) { flags = append(flags, "--"+name+" "+value) }
	for _, n := range []struct {
		name  string
		value int
	}{{"topk", o.TopK}, {"candidates", o.Candidates}, {"block-tokens", o.BlockTokens}} {
		if n.value != 0 {
			add(n.name, strconv.Itoa(n.value))
		}
	}
	if o.Requests != nil {
		add("requests", strings.Join(slices.Compact(slices.Sorted(slices.Values(o.Requests))), ","))
	}
	if o.Layers != nil {
		add("layers", numbers(o.Layers))
	}
	if o.Heads != nil {
		add("heads", numbers(o.Heads))
	}
	if o.Union {
		add("heads", "union")
	}
	if o.Steps != nil {
		add("steps", o.Steps.String())
	}
	return strings.Join(flags, " ")
}

// numbers formats the distinct numbers, ascending.
func numbers(values []int32) string {
	distinct := slices.Compact(slices.Sorted(slices.Values(values)))
	return strings.Join(slice.Map(distinct, func(v int32) string { return strconv.Itoa(int(v)) }), ",")
}

// UnknownError reports a selected request, layer or head that the source lacks.
type UnknownError struct {
	Kind  string   // request, layer or head
	Name  string   // as selected
	Known []string // in the source, in its order
}

// Error counts the names in the source and lists at most 20 of them. Consecutive numbers are one range.
func (e *UnknownError) Error() string {
	const most = 20
	if len(e.Known) == 1 {
		return fmt.Sprintf("no %s %s (the trace has %s)", e.Kind, e.Name, e.Known[0])
	}
	known, more := ranges(e.Known), ""
	if len(known) > most {
		known, more = known[:most], fmt.Sprintf(" and %d more", len(known)-most)
	}
	return fmt.Sprintf("no %s %s (the trace has %d %ss: %s%s)", e.Kind, e.Name, len(e.Known), e.Kind, strings.Join(known, ", "), more)
}

// ranges writes runs of at least three consecutive numbers as "0-29". It keeps other names.
func ranges(names []string) (list []string) {
	for i := 0; i < len(names); {
		first, err := strconv.Atoi(names[i])
		to := i + 1
		for err == nil && to < len(names) && names[to] == strconv.Itoa(first+to-i) {
			to++
		}
		if to-i < 3 {
			list, i = append(list, names[i]), i+1
			continue
		}
		list, i = append(list, names[i]+"-"+names[to-1]), to
	}
	return list
}

// headName returns a head as messages show it.
func headName(h int32) string {
	if h == trace.NoHead {
		return "none (shared by the layer)"
	}
	return fmt.Sprint(h)
}

// selectStreams fills d.streams. Every selected name must exist, and their
// combination must select something.
func (d *derivation) selectStreams(f *trace.File) error {
	streams := f.Streams()
	requests := slices.Compact(slice.Map(streams, func(s trace.StreamInfo) string { return s.Request }))
	layers := slice.Distinct(streams, func(s *trace.StreamInfo) string { return fmt.Sprint(s.Layer) })
	heads := slice.Distinct(streams, func(s *trace.StreamInfo) string { return headName(s.Head) })
	var err error
	for _, want := range d.o.Requests {
		err = cmp.Or(err, known("request", want, requests))
	}
	for _, want := range d.o.Layers {
		err = cmp.Or(err, known("layer", fmt.Sprint(want), layers))
	}
	for _, want := range d.o.Heads {
		err = cmp.Or(err, known("head", headName(want), heads))
	}
	if err != nil {
		return err
	}
	for i, s := range streams {
		if (d.o.Requests == nil || slices.Contains(d.o.Requests, s.Request)) &&
			(d.o.Layers == nil || slices.Contains(d.o.Layers, s.Layer)) &&
			(d.o.Heads == nil || slices.Contains(d.o.Heads, s.Head)) {
			d.streams = append(d.streams, i)
		}
	}
	if len(d.streams) == 0 {
		return fmt.Errorf("no stream matches all selections: %v", d.o)
	}
	return nil
}

func known(kind, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return &UnknownError{kind, name, names}
}
