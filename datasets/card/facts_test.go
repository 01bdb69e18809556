package card

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// write makes a trace of one stream per layer, each with the same rows.
func write(t *testing.T, path string, m trace.Meta, layers []int32, rows []trace.Row) string {
	t.Helper()
	w, err := trace.Create(path, m)
	fatal.If(t, err)
	for _, l := range layers {
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "ruler-vt-0", Layer: l, Head: 0}, PromptLen: 32})
		for _, r := range rows {
			s.Append(r)
		}
		fatal.If(t, w.Write(&s))
	}
	fatal.If(t, w.Close())
	return path
}

func mass(v float32) *float32 { return &v }

// exactTrace demands {0 1 2 3} {0 1 4 9} {0 2 9 8}.
func exactTrace(t *testing.T, folder string) string {
	m := trace.Meta{Order: trace.OrderRank, TopK: 4, BlockTokens: 1, Selector: exact, Model: "Tiny-7B", Notes: map[string]string{"part": "p", "task": "vt; cwe"}}
	return write(t, filepath.Join(folder, "p.exact.parquet"), m, []int32{1}, []trace.Row{
		{Step: 0, Indices: []int32{0, 1, 2, 3, 4, 5}, CoveredMass: mass(0.5), Predicted: []int32{0, 1, 7, 6}},
		{Step: 1, Indices: []int32{0, 1, 4, 9, 2, 3}, CoveredMass: mass(0.25), Predicted: []int32{0, 1, 4, 9}},
		{Step: 2, Indices: []int32{0, 2, 9, 8, 1, 4}, CoveredMass: mass(0.25), Predicted: []int32{5}},
	})
}

// questTrace selects tokens 0 to 3, 8 to 11 and 4 to 7. It has one layer and one step more than the
// exact trace.
func questTrace(t *testing.T, folder string) string {
	m := trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 4, Selector: "quest", Model: "Tiny-7B",
		Notes: map[string]string{"part": "p", "task": "vt; cwe", "selector.page": "4", "exact.mass": "0.5; 0.7", "exact.resident": "0.25"}}
	return write(t, filepath.Join(folder, "p.quest.parquet"), m, []int32{1, 2}, []trace.Row{
		{Step: 0, Indices: []int32{0, 1}}, {Step: 1, Indices: []int32{2, 0}}, {Step: 2, Indices: []int32{1, 0}}, {Step: 3, Indices: []int32{1, 0}},
	})
}

func same(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9) {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

// Figures are counted by hand from the lists above.
func TestFacts(t *testing.T) {
	s, err := readSource(context.Background(), exactTrace(t, t.TempDir()))
	fatal.If(t, err)
	f := &s.streams[0].facts
	same(t, "overlap", f.overlap(), 4./8)
	same(t, "kept for 1", f.keptFor(1), 4./8)
	same(t, "kept for 2", f.keptFor(2), 5./8) // block 2 comes back
	for m, want := range map[int]float64{1: 2. / 8, 4: 4. / 8, 6: 6. / 8, 9: 6. / 8} {
		same(t, "next Top-K", f.nextTopK(m), want)
	}
	same(t, "best ranks stay", f.stays(0, 1), 1)
	same(t, "rank 3 stays", f.stays(3, 4), 0.5)
	same(t, "candidates enter", f.stays(4, 6), 0.5)
	same(t, "mass", f.mass(), 1./3)
	same(t, "predicted", f.predicted(), 6./12)
	same(t, "working set of 1", f.workingSet(0), 1)
	if s.streams[0].task != "vt" || s.part != "p" {
		t.Errorf("task %s, part %s", s.streams[0].task, s.part)
	}
	// A cache of at least 3 K, without warm-up, misses each of 7 of 12 blocks once.
	same(t, "LRU of 3 × K", f.hits(lru3), 5./12)
}

// Recall compares tokens with blocks, where request, layer, head and step are the same.
func TestRecall(t *testing.T) {
	folder := t.TempDir()
	c, err := measure(context.Background(), []string{exactTrace(t, folder), questTrace(t, folder)}, Options{})
	fatal.If(t, err)
	if len(c.recalls) != 1 || c.recalls[0].selector != "quest:page=4" || c.recalls[0].facts.streams != 1 {
		t.Fatalf("%+v", c.recalls)
	}
	same(t, "recall", c.recalls[0].share(), 5./12)
	same(t, "mass", mean(c.recalls[0].mass), 0.6)
	same(t, "resident", mean(c.recalls[0].resident), 0.25)
	if len(c.sets) != 1 || len(c.sets[0].streams) != 1 {
		t.Errorf("the set of the part is not the exact trace alone: %+v", c.sets)
	}
	if text := c.Selectors(); !strings.Contains(text, "| p | `quest:page=4` | 4 | 41.7 % | 25.0 % | 60.0 % |") {
		t.Error(text)
	}
}

func TestTaskOf(t *testing.T) {
	for _, c := range []struct{ note, request, want string }{
		{"qa_1; qa_10; vt", "ruler-qa_10-4096-0", "qa_10"},
		{"qa_1; qa_10; vt", "qa_1-0", "qa_1"},
		{"niah_single_1", "anything", "niah_single_1"},
		{"a; b", "c-0", "stem"},
		{"", "ruler-vt-0", "stem"},
	} {
		if got := taskOf(c.note, c.request, "stem"); got != c.want {
			t.Errorf("%q of %q: %s, expected %s", c.request, c.note, got, c.want)
		}
	}
}

// Pooled streams are sums, not means of ratios.
func TestPool(t *testing.T) {
	var a facts
	a.add(&facts{next: []int64{1}, from: []int64{4}, covered: 1, massRows: 2})
	a.add(&facts{next: []int64{3, 1}, from: []int64{4, 4}, covered: 0, massRows: 2})
	same(t, "rank 0", a.stays(0, 1), 0.5)
	same(t, "rank 1", a.stays(1, 2), 0.25)
	same(t, "mass", a.mass(), 0.25)
}

// The figures agree with the papers' text. KVDrive's section 9.3 says +0.9 to +3.9 on Llama and
// Qwen, and its table has two losses on Phi-4-mini.
func TestPapers(t *testing.T) {
	lru, gains := driveGains()
	if least, most := extremes(lru); least != 70 || most != 90.7 {
		t.Errorf("%v to %v", least, most)
	}
	if text := better(gains, "cells"); text != "better in 10 of 12 cells, by -1.8 to +3.9 points" || math.Abs(mean(gains)-17.2/12) > 1e-9 {
		t.Errorf("%s, mean %v", text, mean(gains))
	}
}

// A note of several sources is shown once, even if its value contains the separator.
func TestNoteOf(t *testing.T) {
	m := trace.Meta{Notes: map[string]string{"a": "x; y; x; y", "b": "z"}}
	if a, b, c := noteOf(&m, "a"), noteOf(&m, "b"), noteOf(&m, "c"); a != "x; y" || b != "z" || c != "" {
		t.Errorf("%q, %q, %q", a, b, c)
	}
}
