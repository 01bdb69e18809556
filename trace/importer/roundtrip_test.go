package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// randomTrace writes a trace with every column at path and returns its streams.
func randomTrace(t *testing.T, seed uint64, path string) []*trace.Stream {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	m := trace.Meta{Order: trace.OrderRank, TopK: 3, BlockTokens: 1 + int(seed%2), Sink: number(2), Local: number(3), EntryBytes: 12,
		Model: "m", ScoreMantissaBits: number(23), Notes: map[string]string{"seed": fmt.Sprint(seed)}}
	if seed%3 == 2 {
		m.Order, m.TopK = trace.OrderIndex, 9
	}
	w, err := trace.Create(path, m)
	fatal.If(t, err)
	for i := range 6 {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: fmt.Sprint("r", i/3), Layer: int32(i % 3), Head: int32(i%2) - 1}, PromptLen: int32(50 + i/3)})
		for step := int32(-3); step < 8; step++ {
			s.Append(randomRow(r, &m, step, m.Blocks(int(s.PromptLen)+int(step)+1)))
		}
		for range m.Blocks(int(s.PromptLen)) {
			s.PromptMass = append(s.PromptMass, r.Float32())
		}
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return readAll(t, path)
}

func randomRow(r *rand.Rand, m *trace.Meta, step int32, blocks int) trace.Row {
	covered := r.Float32()
	row := trace.Row{Step: step, CoveredMass: &covered, Predicted: []int32{}}
	for _, x := range r.Perm(blocks)[:9] {
		row.Indices = append(row.Indices, int32(x))
		row.Scores = append(row.Scores, r.Float32())
		row.AttentionMass = append(row.AttentionMass, r.Float32())
	}
	slices.SortFunc(row.Scores, func(a, b float32) int { return int(1e6 * (b - a)) })
	if m.Order == trace.OrderIndex {
		slices.Sort(row.Indices)
	}
	for _, x := range r.Perm(blocks)[:r.IntN(4)] {
		row.Predicted = append(row.Predicted, int32(x))
	}
	return row
}

// A trace that goes through Arrow (file and stream) or Parquet with its metadata is unchanged.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(12) {
		dir := t.TempDir()
		path := filepath.Join(dir, "t.parquet")
		want := randomTrace(t, seed, path)
		f, err := trace.Open(path)
		fatal.If(t, err)
		text, err := f.Meta().Canonical()
		fatal.If(t, err)
		digest := f.StoredDigest()
		f.Close()
		for name, source := range map[string]string{
			"arrow file":   write(t, dir, "file", arrowBytes(t, true, string(text), want)),
			"arrow stream": write(t, dir, "stream", arrowBytes(t, false, string(text), want)),
			"parquet":      path,
			"parquet gzip": write(t, dir, "zipped", zipped(t, read(t, path))),
		} {
			result, got := importAll(t, Options{}, source)
			if result.Digest != digest {
				t.Errorf("seed %d %s: digest %s, want %s", seed, name, result.Digest, digest)
			}
			for i := range want {
				got[i].StreamInfo = want[i].StreamInfo
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Errorf("seed %d %s: stream %v differs", seed, name, want[i].Key)
				}
			}
		}
		mustFail(t, Options{Meta: trace.Meta{Model: "other"}}, []string{path, "model m", "--model states other"}, path)
		if meta := imported(t, Options{Meta: trace.Meta{Notes: map[string]string{"seed": "x"}}}, path); meta.Notes["seed"] != "x" {
			t.Errorf("seed %d: a flag's note is %q, expected it to stand for the source's", seed, meta.Notes["seed"])
		}
	}
}

// The prompt mass is kept if the window that carries it is left out.
func TestPromptMassOutlivesItsRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	want := randomTrace(t, 1, path)
	_, got := importAll(t, Options{Windows: number(0)}, path)
	for i, s := range got {
		if s.FirstStep != 0 || !slices.Equal(s.PromptMass, want[i].PromptMass) {
			t.Errorf("%v from step %d: %d prompt masses, expected the source's %d", s.Key, s.FirstStep, len(s.PromptMass), len(want[i].PromptMass))
		}
	}
	twice := filepath.Join(t.TempDir(), "twice.arrow")
	rows := make([]*trace.Stream, 2) // one stream in two halves, each with a first row
	for i := range rows {
		rows[i] = &trace.Stream{}
		rows[i].Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 4})
		rows[i].Append(trace.Row{Step: int32(i), Indices: []int32{1}})
		rows[i].PromptMass = []float32{0, 1, 0, 0}
	}
	fatal.If(t, os.WriteFile(twice, arrowBytes(t, true, `{"version":1,"order":"rank","topk":1,"block_tokens":1}`, rows), 0o644))
	mustFail(t, Options{}, []string{`request "r" layer 0 has prompt_mass here and at`, "only in the first row of a stream"}, twice)
}

// The notes of several sources are joined without duplicates.
func TestNotesOfSources(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, task := range []string{"vt", "cwe", "vt"} {
		m := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: 2, Candidates: 2, BlockTokens: 1, Notes: map[string]string{"task": task, "weights": "w; of a kind"}}
		path := filepath.Join(dir, fmt.Sprint(i)+".parquet")
		w, err := trace.Create(path, m)
		fatal.If(t, err)
		s := new(trace.Stream)
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: fmt.Sprint(i), Head: trace.NoHead}, PromptLen: 9})
		s.Append(trace.Row{Indices: []int32{3, 1}})
		fatal.If(t, w.Write(s))
		fatal.If(t, w.Close())
		paths = append(paths, path)
	}
	if meta := imported(t, Options{}, paths...); meta.Notes["task"] != "vt; cwe" || meta.Notes["weights"] != "w; of a kind" {
		t.Errorf("notes %v", meta.Notes)
	}
}

// imported returns the metadata of the trace that the sources make.
func imported(t *testing.T, o Options, paths ...string) *trace.Meta {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.parquet")
	if _, err := Import(context.Background(), o, out, paths...); err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(out)
	fatal.If(t, err)
	defer f.Close()
	return f.Meta()
}

// The error names the sources that state different values.
func TestTwoSourcesDisagree(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	randomTrace(t, 0, a)
	randomTrace(t, 1, b)
	mustFail(t, Options{}, []string{b + ": states block_tokens 2", a + " states 1"}, a, b)
}

// An empty list of prompt masses, from a prompt without tokens, differs from no list.
func TestEmptyPromptMass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1, ScoreMantissaBits: number(23)})
	fatal.If(t, err)
	for prompt := range int32(3) {
		s := &trace.Stream{EmptyPromptMass: prompt == 0}
		s.Key, s.PromptLen = trace.Key{Request: fmt.Sprint(prompt), Head: trace.NoHead}, prompt
		s.PromptMass = make([]float32, prompt)
		s.Append(trace.Row{Indices: []int32{0}})
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	result, got := importAll(t, Options{}, path)
	if !got[0].EmptyPromptMass || got[1].EmptyPromptMass || result.Digest != digest(t, path) {
		t.Errorf("digest %s, of the source %s", result.Digest, digest(t, path))
	}
}

func digest(t *testing.T, path string) string {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	return f.StoredDigest()
}

// A prompt length that a table states is kept, even if the layers of a request differ in it.
func TestPromptOfStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
	fatal.If(t, err)
	for layer := range int32(2) {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}, PromptLen: 90 + 5*layer})
		for step := int32(-2); step < 3; step++ {
			s.Append(trace.Row{Step: step, Indices: []int32{step + 50}})
		}
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	if result, _ := importAll(t, Options{}, path); result.Digest != digest(t, path) {
		t.Errorf("digest %s, of the source %s", result.Digest, digest(t, path))
	}
	mustFail(t, Options{PromptLen: 95}, []string{"row 1", "prompt of 90 tokens", "--prompt-len is 95"}, path)
	a, b := &trace.Stream{}, &trace.Stream{}
	for i, s := range []*trace.Stream{a, b} { // both have the same key
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: int32(9 + 3*i)})
		s.Append(trace.Row{Indices: []int32{1}})
	}
	two := write(t, t.TempDir(), "two.arrow", arrowBytes(t, true, "", []*trace.Stream{a, b}))
	mustFail(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, []string{"prompt of 12 tokens here and of 9", "one length per stream"}, two)
}
