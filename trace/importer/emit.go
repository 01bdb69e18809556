package importer

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// emitter builds streams from sorted records and writes them.
type emitter struct {
	c      *collector
	meta   trace.Meta
	w      *trace.Writer
	check  *trace.Checker
	result *Result
	stream trace.Stream
	places []place // of the stream's rows
	rec    record
	buf    []byte
	mass   promptMass
}

// promptMass is the list in one row of a stream that holds for the whole stream. The row may be a
// window that --windows leaves out.
type promptMass struct {
	set    bool
	key    trace.Key
	values []float32
	at     place
}

// place is the origin of a row.
type place struct {
	source int32
	at     int64
}

func (e *emitter) String(p place) string { return e.c.where(p) }

// emit writes the trace to out. After an error it leaves no file.
func (c *collector) emit(out string, meta trace.Meta) (*Result, error) {
	if err := c.spill.finish(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	w, err := trace.Create(out, meta)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	limits := meta
	limits.Candidates = max(meta.Candidates, c.longest)
	e := &emitter{c: c, meta: meta, w: w, check: trace.NewChecker(out, &limits), result: newResult(c, &meta)}
	if err := e.all(); err != nil {
		w.Abort()
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return e.result, e.result.finish(out)
}

// all reads the records in key order and writes every stream.
func (e *emitter) all() error {
	written := int64(0)
	for entry, err := range e.c.index.sorted() {
		if err != nil {
			return err
		}
		if err := e.c.ctx.Err(); err != nil {
			return err
		}
		if written++; written%tellEvery == 0 {
			e.c.tell(written)
		}
		if e.stream.Rows > 0 && e.stream.Key != entry.key {
			if err := e.flush(); err != nil {
				return err
			}
		}
		if err := e.row(entry); err != nil {
			return err
		}
	}
	if err := e.flush(); err != nil {
		return err
	}
	e.c.tell(written)
	if e.result.Streams == 0 {
		return fmt.Errorf("all steps are prompt windows that --windows drops. Raise --windows")
	}
	return nil
}

// row reads one record and appends it to the open stream.
func (e *emitter) row(x entry) error {
	b, err := e.c.spill.read(x.offset, int(x.size), e.buf)
	if err != nil {
		return err
	}
	e.buf = b[:0:cap(b)]
	if e.c.spill.file == nil {
		e.buf = nil // this is memory of the spill
	}
	p := place{source: e.rec.decode(b)}
	p.at = e.rec.at
	prompt := e.c.requests[x.key.Request].resolved
	if e.rec.states {
		prompt = x.seqLen - e.rec.step - 1
	}
	if len(e.rec.promptMass) > 0 || e.rec.emptyMass && prompt == 0 { // otherwise an empty list means the same as null
		if err := e.keepMass(x.key, p); err != nil {
			return err
		}
	}
	step := x.seqLen - prompt - 1
	if w := e.c.opts.Windows; w != nil && int(step) < -*w {
		return nil
	}
	if e.stream.Rows == 0 {
		e.stream.Reset(trace.StreamInfo{Key: x.key, PromptLen: prompt})
		e.places = e.places[:0]
	} else if e.stream.PromptLen != prompt {
		return fmt.Errorf("%s: %v has a prompt of %d tokens here and of %d at %s, expected one length per stream", e.String(p), x.key, prompt, e.stream.PromptLen, e.String(e.places[0]))
	} else if err := e.follows(p, step); err != nil {
		return err
	}
	if e.meta.Order == trace.OrderIndex {
		e.rec.ascend()
	}
	e.stream.Append(trace.Row{Step: step, Indices: e.rec.indices, Scores: e.rec.scores,
		CoveredMass: e.rec.covered, AttentionMass: e.rec.attention, Predicted: e.rec.predicted})
	e.places = append(e.places, p)
	return nil
}

func (e *emitter) keepMass(key trace.Key, at place) error {
	if e.mass.set && e.mass.key == key && len(e.mass.values) > 0 {
		return fmt.Errorf("%s: %v has prompt_mass here and at %s, expected it only in the first row of a stream", e.String(at), key, e.String(e.mass.at))
	}
	e.mass = promptMass{true, key, append(e.mass.values[:0], e.rec.promptMass...), at}
	return nil
}

// follows checks the row at p against the stream's earlier rows: its step must be new and its
// columns the same.
func (e *emitter) follows(p place, step int32) error {
	s, n := &e.stream, len(e.places)
	if step == s.LastStep {
		return fmt.Errorf("%s: %v step %d is also at %s, expected each step of a stream once", e.String(p), s.Key, step, e.String(e.places[n-1]))
	}
	for _, column := range []struct {
		name      string
		has, want bool
	}{
		{"scores", len(e.rec.scores) > 0, len(s.Scores) > 0},
		{"attention_mass", len(e.rec.attention) > 0, len(s.AttentionMass) > 0},
		{"covered_mass", e.rec.covered != nil, len(s.CoveredMass) > 0},
		{"predicted_indices", e.rec.predicted != nil, len(s.PredictedOffsets) > 0},
	} {
		if column.has != column.want {
			return fmt.Errorf("%s: %v step %d: %s present: %v, but %v at %s, expected the same in all rows of a stream",
				e.String(p), s.Key, step, column.name, column.has, column.want, e.String(e.places[0]))
		}
	}
	return nil
}

// flush checks and writes the open stream. Its error names the place of the record.
func (e *emitter) flush() error {
	if e.stream.Rows == 0 {
		return nil
	}
	if e.mass.set && e.mass.key == e.stream.Key {
		e.stream.PromptMass, e.stream.EmptyPromptMass = append(e.stream.PromptMass[:0], e.mass.values...), len(e.mass.values) == 0
	}
	if broken := e.check.First(&e.stream); broken != nil {
		broken.Path = e.String(e.places[broken.Row-e.stream.FirstRow])
		broken.RowGroup, broken.Row = -1, -1
		return broken
	}
	e.result.count(&e.stream)
	if err := e.w.Write(&e.stream); err != nil {
		return fmt.Errorf("%s and after: %w", e.String(e.places[0]), err)
	}
	e.stream.Rows = 0
	return nil
}

// Result describes an import.
type Result struct {
	Sources  []string // path and format
	Meta     trace.Meta
	Requests int
	Layers   int // distinct layer ids over all requests
	Heads    int // distinct heads, 0 if layers share their selection
	Streams  int
	Rows     int64
	Indices  int64
	Windows  int   // largest number of windows in a stream
	First    int32 // smallest step
	Last     int32 // greatest step
	BytesIn  int64 // size of the sources on disk, in bytes
	BytesOut int64
	Digest   string
	Warnings []string

	layers, heads map[int32]bool
	requests      map[string]int32 // last step of a request's first stream
	uneven        map[string]bool
}

func newResult(c *collector, m *trace.Meta) *Result {
	r := &Result{Meta: *m, Warnings: c.warnings, layers: map[int32]bool{}, heads: map[int32]bool{},
		requests: map[string]int32{}, uneven: map[string]bool{}}
	for _, s := range c.sources {
		r.Sources = append(r.Sources, fmt.Sprintf("%s: %v", s.path, s.found))
		r.BytesIn += s.size
	}
	return r
}

func (r *Result) count(s *trace.Stream) {
	if r.Streams == 0 {
		r.First, r.Last = s.FirstStep, s.LastStep
	}
	r.First, r.Last = min(r.First, s.FirstStep), max(r.Last, s.LastStep)
	r.Streams++
	r.Rows += int64(s.Rows)
	r.Indices += int64(len(s.Indices))
	r.Windows = max(r.Windows, s.Windows)
	r.layers[s.Layer] = true
	if s.Head != trace.NoHead {
		r.heads[s.Head] = true
	}
	if last, known := r.requests[s.Request]; !known {
		r.requests[s.Request] = s.LastStep
	} else if last != s.LastStep {
		r.uneven[s.Request] = true
	}
}

// finish adds facts that it reads from the written file.
func (r *Result) finish(path string) error {
	r.Requests, r.Layers, r.Heads = len(r.requests), len(r.layers), len(r.heads)
	for _, id := range slices.Sorted(maps.Keys(r.uneven)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("request %q: its streams end at different steps. Check that the source is complete", id))
	}
	if r.Windows == 0 {
		r.Warnings = append(r.Warnings, "no prompt windows (steps below 0): replay can only start cold")
	}
	f, err := trace.Open(path)
	if err != nil {
		return fmt.Errorf("import: read back: %w", err)
	}
	defer f.Close()
	r.Meta = *f.Meta()
	if r.Digest, err = f.Digest(); err != nil {
		return fmt.Errorf("import: read back: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("import: read back: %w", err)
	}
	r.BytesOut = info.Size()
	return nil
}

// Summary writes the warnings and a few lines of text.
func (r *Result) Summary(w io.Writer) error {
	var b strings.Builder
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	for _, s := range r.Sources {
		fmt.Fprintf(&b, "source   %s\n", s)
	}
	heads := "shared by the layer"
	if r.Heads > 0 {
		heads = fmt.Sprint(r.Heads)
	}
	fmt.Fprintf(&b, "streams  %d (requests %d, layers %d, heads %s)\n", r.Streams, r.Requests, r.Layers, heads)
	fmt.Fprintf(&b, "steps    %d … %d (windows %d), %d rows, %d indices\n", r.First, r.Last, r.Windows, r.Rows, r.Indices)
	fmt.Fprintf(&b, "lists    K %d, M %d, order %s\n", r.Meta.TopK, r.Meta.Candidates, r.Meta.Order)
	fmt.Fprintf(&b, "bytes    %d in, %d out\n", r.BytesIn, r.BytesOut)
	fmt.Fprintf(&b, "digest   %s\n", r.Digest)
	_, err := io.WriteString(w, b.String())
	return err
}
