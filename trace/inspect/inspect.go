// Package inspect describes a trace: its metadata, its extent, and how its demand repeats (package
// locality).
package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// Options select the measurements.
type Options struct {
	TopK   int  // K of the demand in blocks, 0 for the trace's own
	Layers bool // measure locality of each layer as well
}

// Report is the output of `kvreplay inspect --format json`. README.md explains the fields.
type Report struct {
	Path      string     `json:"path"`
	Bytes     int64      `json:"bytes"`
	Digest    *string    `json:"digest"` // stored digest, null if the file states none
	Metadata  trace.Meta `json:"metadata"`
	TopK      int        `json:"topk"` // K of the demand below
	Columns   []string   `json:"columns"`
	RowGroups int        `json:"row_groups"`
	Streams   int        `json:"streams"`
	Rows      int64      `json:"rows"`
	Indices   int64      `json:"indices"`
	Requests  []Request  `json:"requests"`
	Layers    []int32    `json:"layers"`
	Heads     []int32    `json:"heads"` // empty if layers share a selection
	Steps     Extent     `json:"steps"` // counted steps of a stream
	Windows   Extent     `json:"windows"`
	PromptLen Extent     `json:"prompt_len"`
	List      Extent     `json:"list_length"`
	Locality  Locality   `json:"locality"`
}

// Request is the extent of one request.
type Request struct {
	ID        string `json:"id"`
	PromptLen int32  `json:"prompt_len"`
	Streams   int    `json:"streams"`
	Steps     int    `json:"steps"`   // largest number of counted steps in a stream
	Windows   int    `json:"windows"` // largest number of windows in a stream
}

// Extent is a smallest and a largest value.
type Extent struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

func (e *Extent) add(v int64, first bool) {
	if first {
		*e = Extent{v, v}
	}
	e.Min, e.Max = min(e.Min, v), max(e.Max, v)
}

// Locality holds the measurements of all streams pooled and, if requested, of each layer.
type Locality struct {
	locality.Summary
	ByLayer []Layer `json:"by_layer"` // null unless requested
}

// Layer is the locality of one layer's streams.
type Layer struct {
	Layer int32 `json:"layer_id"`
	locality.Summary
}

// File describes the trace at path. It reads and checks all lists, with one stream in memory at a
// time. If ctx ends, it stops between streams.
func File(ctx context.Context, path string, o Options) (*Report, error) {
	f, err := trace.OpenContext(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Report{Path: path, Metadata: *f.Meta(), TopK: f.Meta().TopK}
	if o.TopK != 0 {
		if err := checkTopK(f.Meta(), o.TopK); err != nil {
			return nil, fmt.Errorf("inspect %s: %w", path, err)
		}
		r.TopK = o.TopK
	}
	r.extent(f)
	return r, r.locality(ctx, f, o.Layers)
}

func checkTopK(m *trace.Meta, k int) error {
	switch {
	case k < 1:
		return fmt.Errorf("--topk %d, expected at least 1", k)
	case m.Order == trace.OrderIndex && k != m.TopK:
		return fmt.Errorf("--topk %d: the lists have no ranks (order=index), expected K = %d", k, m.TopK)
	case k > m.Candidates:
		return fmt.Errorf("--topk %d exceeds M = %d of the trace", k, m.Candidates)
	}
	return nil
}

// extent fills in the fields that the directory holds.
func (r *Report) extent(f *trace.File) {
	r.Bytes, r.RowGroups, r.Streams, r.Indices = f.Size(), f.RowGroups(), len(f.Streams()), f.Indices()
	if d := f.StoredDigest(); d != "" {
		r.Digest = &d
	}
	r.columns(f)
	for i := range f.Streams() {
		r.addStream(&f.Streams()[i], i == 0)
	}
	r.Layers, r.Heads = distinct(f, func(s *trace.StreamInfo) int32 { return s.Layer }), distinct(f, func(s *trace.StreamInfo) int32 { return s.Head })
}

func (r *Report) addStream(s *trace.StreamInfo, first bool) {
	r.Rows += int64(s.Rows)
	r.Steps.add(int64(s.Rows-s.Windows), first)
	r.Windows.add(int64(s.Windows), first)
	r.PromptLen.add(int64(s.PromptLen), first)
	if n := len(r.Requests); n == 0 || r.Requests[n-1].ID != s.Request {
		r.Requests = append(r.Requests, Request{ID: s.Request, PromptLen: s.PromptLen})
	}
	q := &r.Requests[len(r.Requests)-1]
	q.Streams++
	q.Steps, q.Windows = max(q.Steps, s.Rows-s.Windows), max(q.Windows, s.Windows)
}

func (r *Report) columns(f *trace.File) {
	for c := trace.ColIndices; c < trace.NumColumns; c++ {
		if c == trace.ColIndices || f.Has(c) {
			r.Columns = append(r.Columns, trace.ColumnNames[c])
		}
	}
}

func distinct(f *trace.File, key func(*trace.StreamInfo) int32) []int32 {
	values := []int32{}
	for i := range f.Streams() {
		if v := key(&f.Streams()[i]); v != trace.NoHead {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func (r *Report) locality(ctx context.Context, f *trace.File, layers bool) error {
	f.ExpectAll(0)
	reader := f.NewReader(0)
	defer reader.Close()
	analyzer := locality.New(f.Meta(), r.TopK)
	var s trace.Stream
	var all locality.Counts
	byLayer := map[int32]*locality.Counts{}
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("inspect %s: %w", r.Path, err)
		}
		if err := reader.Read(i, &s); err != nil {
			return err
		}
		for j := range s.Steps {
			r.List.add(int64(len(s.List(j))), i == 0 && j == 0)
		}
		c := analyzer.Stream(&s)
		all.Add(c)
		if layers {
			if byLayer[s.Layer] == nil {
				byLayer[s.Layer] = new(locality.Counts)
			}
			byLayer[s.Layer].Add(c)
		}
	}
	r.Locality.Summary = all.Summary()
	if layers {
		for _, l := range r.Layers {
			r.Locality.ByLayer = append(r.Locality.ByLayer, Layer{l, byLayer[l].Summary()})
		}
	}
	return nil
}
