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

// Result is what an import did.
type Result struct {
	Path     string
	Sources  []string // path and format
	Meta     trace.Meta
	Requests int
	Layers   int // distinct layer ids over all requests
	Heads    int // distinct heads; 0 where layers share their selection
	Streams  int
	Rows     int64
	Indices  int64
	Windows  int   // most prompt windows of a stream
	First    int32 // smallest step
	Last     int32 // greatest step
	BytesIn  int64 // of the sources as they lie on disk
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

// count adds a stream.
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

// finish reads back what the written file says of itself.
func (r *Result) finish(path string) error {
	r.Path, r.Requests, r.Layers, r.Heads = path, len(r.requests), len(r.layers), len(r.heads)
	for _, id := range slices.Sorted(maps.Keys(r.uneven)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("request %q: its streams end at different steps; was the source cut off?", id))
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

// Summary writes the warnings and a few lines for people.
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
	fmt.Fprintf(&b, "trace    %s\n", r.Path)
	fmt.Fprintf(&b, "streams  %d (requests %d, layers %d, heads %s)\n", r.Streams, r.Requests, r.Layers, heads)
	fmt.Fprintf(&b, "steps    %d … %d (windows %d), %d rows, %d indices\n", r.First, r.Last, r.Windows, r.Rows, r.Indices)
	fmt.Fprintf(&b, "lists    K %d, M %d, order %s\n", r.Meta.TopK, r.Meta.Candidates, r.Meta.Order)
	fmt.Fprintf(&b, "bytes    %d in, %d out\n", r.BytesIn, r.BytesOut)
	fmt.Fprintf(&b, "digest   %s\n", r.Digest)
	_, err := io.WriteString(w, b.String())
	return err
}
