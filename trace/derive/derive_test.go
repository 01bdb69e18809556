package derive

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// source writes two requests with two layers of two heads, random rows and every column.
func source(t *testing.T, seed uint64, meta trace.Meta) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "source.parquet")
	w, err := trace.Create(path, meta)
	fatal.If(t, err)
	var s trace.Stream
	for key := range 8 {
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: []string{"a", "b"}[key/4], Layer: int32(key / 2 % 2), Head: int32(key % 2)}, PromptLen: 40})
		for step := int32(-4); step < 6; step++ {
			s.Append(randomRow(r, step, 36/meta.BlockTokens, meta.Candidates, meta.Order))
		}
		for range meta.Blocks(int(s.PromptLen)) {
			s.PromptMass = append(s.PromptMass, float32(r.IntN(8)))
		}
		fatal.If(t, w.Write(&s))
	}
	fatal.If(t, w.Close())
	return path
}

func randomRow(r *rand.Rand, step int32, n, m int, order string) trace.Row {
	row := trace.Row{Step: step, CoveredMass: new(float32), Predicted: []int32{}}
	for _, x := range r.Perm(n)[:min(n, 1+r.IntN(m))] {
		row.Indices = append(row.Indices, int32(x))
		row.Scores = append(row.Scores, r.Float32())
		row.AttentionMass = append(row.AttentionMass, r.Float32())
	}
	for _, x := range r.Perm(n)[:r.IntN(5)] {
		row.Predicted = append(row.Predicted, int32(x))
	}
	slices.Sort(row.Scores)
	slices.Reverse(row.Scores)
	if order == trace.OrderIndex {
		slices.Sort(row.Indices)
	}
	return row
}

var rankMeta = trace.Meta{Order: trace.OrderRank, TopK: 8, Candidates: 12, BlockTokens: 1, EntryBytes: 64, Notes: map[string]string{"workload": "test"}}

// load reads a whole trace.
func load(t *testing.T, path string) (trace.Meta, []trace.Stream) {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	fatal.If(t, f.Verify())
	streams := make([]trace.Stream, len(f.Streams()))
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	for i := range streams {
		fatal.If(t, reader.Read(i, &streams[i]))
	}
	return *f.Meta(), streams
}

func derived(t *testing.T, src string, o Options) (trace.Meta, []trace.Stream, Result) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "out.parquet")
	r, err := Derive(t.Context(), src, dst, o)
	if err != nil {
		t.Fatalf("%v: %v", &o, err)
	}
	m, s := load(t, dst)
	return m, s, r
}

// rows returns the streams' contents by key and step, without their places in the file.
func rows(streams []trace.Stream) map[string]trace.Row {
	all := map[string]trace.Row{}
	for i := range streams {
		for j := range streams[i].Steps {
			all[fmt.Sprint(streams[i].Key, streams[i].Steps[j])] = rowOf(&streams[i], j, 1<<30)
		}
	}
	return all
}

// Derive without options copies the trace. Only the note changes the digest.
func TestCopy(t *testing.T) {
	src := source(t, 1, rankMeta)
	before, want := load(t, src)
	meta, got, _ := derived(t, src, Options{})
	if !reflect.DeepEqual(rows(got), rows(want)) {
		t.Error("a copy has other rows")
	}
	for i, s := range got { // rows uses the code under test, so compare the columns directly
		w := want[i]
		if !slices.Equal(s.Indices, w.Indices) || !slices.Equal(s.Scores, w.Scores) || !slices.Equal(s.AttentionMass, w.AttentionMass) || !slices.Equal(s.PromptMass, w.PromptMass) ||
			!slices.Equal(s.Predicted, w.Predicted) || len(w.CoveredMass) == 0 || !slices.Equal(s.CoveredMass, w.CoveredMass) {
			t.Errorf("%v: a column of the copy differs", s.Key)
		}
	}
	if note := meta.Notes[NoteDerived]; !strings.HasPrefix(note, "from sha256:") || !strings.HasSuffix(note, " by copying") {
		t.Errorf("note %q", note)
	}
	delete(meta.Notes, NoteDerived)
	if !reflect.DeepEqual(meta, before) {
		t.Errorf("metadata %+v, expected %+v", meta, before)
	}
}

// Measurements of a selector's first K do not apply to another demand.
func TestMeasuredNotes(t *testing.T) {
	meta := rankMeta
	other := fmt.Sprintf("exact.recall.%d", meta.TopK+1)
	meta.Notes = map[string]string{"exact.recall": "0.5", other: "0.75", "workload": "w"}
	src := source(t, 3, meta)
	for _, c := range []struct {
		o                Options
		want, wantOfMore string
	}{{Options{}, "0.5", "0.75"}, {Options{TopK: meta.TopK}, "0.5", "0.75"}, {Options{TopK: meta.TopK - 1}, "", "0.75"},
		{Options{TopK: meta.TopK + 1}, "0.75", "0.75"}, {Options{TopK: meta.TopK, Candidates: meta.TopK, BlockTokens: 2}, "", ""}, {Options{Union: true}, "", ""}} {
		got, _, _ := derived(t, src, c.o)
		if got.Notes["exact.recall"] != c.want || got.Notes[other] != c.wantOfMore || got.Notes["workload"] != "w" {
			t.Errorf("%v: exact.recall %q, want %q; notes %v", c.o, got.Notes["exact.recall"], c.want, got.Notes)
		}
	}
}

// A cut list and its parallel columns are prefixes, and covered_mass is dropped.
func TestCut(t *testing.T) {
	src := source(t, 2, rankMeta)
	_, want := load(t, src)
	meta, got, r := derived(t, src, Options{TopK: 3, Candidates: 5})
	if meta.TopK != 3 || meta.Candidates != 5 || !slices.Equal(r.Dropped, []string{"covered_mass"}) {
		t.Errorf("K %d, M %d, dropped %v", meta.TopK, meta.Candidates, r.Dropped)
	}
	full := rows(want)
	for key, row := range rows(got) {
		n := min(5, len(full[key].Indices))
		if !slices.Equal(row.Indices, full[key].Indices[:n]) || !slices.Equal(row.Scores, full[key].Scores[:n]) || !slices.Equal(row.AttentionMass, full[key].AttentionMass[:n]) {
			t.Errorf("%s: %v of %v", key, row, full[key])
		}
		if row.CoveredMass != nil {
			t.Errorf("%s keeps covered_mass", key)
		}
	}
	// A smaller K alone changes the metadata only.
	meta, got, r = derived(t, src, Options{TopK: 3})
	if meta.TopK != 3 || meta.Candidates != 12 || r.Dropped != nil || !reflect.DeepEqual(rows(got), full) {
		t.Errorf("K %d, M %d, dropped %v", meta.TopK, meta.Candidates, r.Dropped)
	}
}

// Worked by hand: tokens 17 3 16 1 4 in blocks of 8 are blocks 2 0 2 0 0. Block 2 gets the score of
// token 17 and the masses of 17 and 16. Block 0 gets the score of token 3 and the masses of 3, 1
// and 4.
func TestToBlocks(t *testing.T) {
	row := trace.Row{Indices: []int32{17, 3, 16, 1, 4}, Scores: []float32{9, 8, 7, 6, 5},
		AttentionMass: []float32{0.5, 0.125, 0.25, 0.0625, 0}, Predicted: []int32{8, 9, 0}}
	got := toBlocks(row, 8)
	want := trace.Row{Indices: []int32{2, 0}, Scores: []float32{9, 8}, AttentionMass: []float32{0.75, 0.1875}, Predicted: []int32{1, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, expected %+v", got, want)
	}
	// In ascending lists the first entry is not the best, so a block takes its highest score.
	got = toBlocks(trace.Row{Indices: []int32{1, 3, 9, 11}, Scores: []float32{2, 5, 1, 4}}, 8)
	if want := (trace.Row{Indices: []int32{0, 1}, Scores: []float32{5, 4}}); !reflect.DeepEqual(got, want) {
		t.Errorf("ascending: got %+v, expected %+v", got, want)
	}
}

// The prompt mass of a block is the sum over its tokens. The last block may have fewer tokens.
func TestPromptMassOfBlocks(t *testing.T) {
	meta := rankMeta
	meta.TopK = 12
	src := source(t, 5, meta)
	_, want := load(t, src)
	_, got, _ := derived(t, src, Options{BlockTokens: 16, Steps: &Steps{From: 0, To: 3}})
	for i, s := range got {
		for b, sum := range s.PromptMass {
			for _, v := range want[i].PromptMass[16*b : min(16*(b+1), len(want[i].PromptMass))] {
				sum -= v
			}
			if sum != 0 {
				t.Errorf("%v block %d: %v of %v", s.Key, b, s.PromptMass, want[i].PromptMass)
			}
		}
		if len(s.PromptMass) != (int(s.PromptLen)+15)/16 {
			t.Errorf("%v: %d values for a prompt of %d tokens", s.Key, len(s.PromptMass), s.PromptLen)
		}
	}
}

// A prompt without tokens keeps its empty list, next to streams with masses.
func TestEmptyPromptMass(t *testing.T) {
	src := filepath.Join(t.TempDir(), "source.parquet")
	w, err := trace.Create(src, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
	fatal.If(t, err)
	for prompt := range int32(2) {
		s := &trace.Stream{EmptyPromptMass: prompt == 0, PromptMass: make([]float32, prompt)}
		s.Key, s.PromptLen = trace.Key{Request: "r", Layer: prompt, Head: trace.NoHead}, prompt
		s.Append(trace.Row{Indices: []int32{0}})
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	if _, got, _ := derived(t, src, Options{BlockTokens: 2}); !got[0].EmptyPromptMass || len(got[1].PromptMass) != 1 {
		t.Errorf("prompt masses %v and %v", got[0].PromptMass, got[1].PromptMass)
	}
}

// Blocks of 4 followed by blocks of 8 give the blocks of 8. K is the length of the longest list.
func TestBlocksCompose(t *testing.T) {
	meta := rankMeta
	meta.TopK = 12
	src := source(t, 3, meta)
	four := filepath.Join(t.TempDir(), "four.parquet")
	if _, err := Derive(t.Context(), src, four, Options{BlockTokens: 4}); err != nil {
		t.Fatal(err)
	}
	m, twice, _ := derived(t, four, Options{BlockTokens: 8})
	_, once, _ := derived(t, src, Options{BlockTokens: 8})
	longest := 0
	a, b := rows(twice), rows(once)
	for key := range b {
		longest = max(longest, len(b[key].Indices))
		if !slices.Equal(a[key].Indices, b[key].Indices) || !slices.Equal(a[key].Scores, b[key].Scores) || !slices.Equal(a[key].Predicted, b[key].Predicted) {
			t.Errorf("%s: %v, at once %v", key, a[key], b[key])
		}
	}
	if m.BlockTokens != 8 || m.TopK != longest || m.Candidates != longest {
		t.Errorf("block_tokens %d, K %d, M %d, longest list %d", m.BlockTokens, m.TopK, m.Candidates, longest)
	}
	if note := m.Notes[NoteDerived]; strings.Count(note, "from sha256:") != 2 || !strings.Contains(note, "--block-tokens 4; then from") {
		t.Errorf("note %q does not tell both steps", note)
	}
}

// The union holds exactly the blocks that any head demands at that step.
func TestUnion(t *testing.T) {
	src := source(t, 4, rankMeta)
	_, want := load(t, src)
	for _, k := range []int{0, 3} {
		m, got, r := derived(t, src, Options{Union: true, TopK: k})
		if k == 0 {
			k = 8
		}
		if m.Order != trace.OrderIndex || m.Reducer != trace.ReducerUnion || m.TopK != m.Candidates || m.EntryBytes != 128 || m.ScoreMantissaBits != nil || len(r.Dropped) != 4 {
			t.Errorf("metadata %+v, dropped %v", m, r.Dropped)
		}
		heads := rows(want)
		if len(got) != 4 || len(rows(got)) != 40 {
			t.Fatalf("%d streams, %d rows, expected 4 and 40", len(got), len(rows(got)))
		}
		for i := range got {
			for j, step := range got[i].Steps {
				all := map[int32]bool{}
				for h := range int32(2) {
					key := got[i].Key
					key.Head = h
					list := heads[fmt.Sprint(key, step)].Indices
					for _, x := range list[:min(k, len(list))] {
						all[x] = true
					}
				}
				list := got[i].List(j)
				if len(list) != len(all) || !slices.IsSorted(list) || slices.ContainsFunc(list, func(x int32) bool { return !all[x] }) {
					t.Errorf("%v step %d: %v, expected the keys of %v", got[i].Key, step, list, all)
				}
			}
		}
	}
}

// The prediction for a union is the union of its heads' predictions, ascending. An empty union
// differs from a trace without predictions.
func TestUnionOfPredictions(t *testing.T) {
	for name, c := range map[string]struct{ first, second, want []int32 }{
		"both": {[]int32{7, 2}, []int32{5, 2, 0}, []int32{0, 2, 5, 7}}, "one": {[]int32{}, []int32{3, 1}, []int32{1, 3}}, "empty": {[]int32{}, []int32{}, []int32{}}, "no column": {nil, nil, nil},
	} {
		var u unionOf
		for head, predicted := range [][]int32{c.first, c.second} {
			var s trace.Stream
			s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: int32(head)}, PromptLen: 9})
			s.Append(trace.Row{Indices: []int32{1}, Predicted: predicted})
			fatal.If(t, u.add(&s))
		}
		if got := u.stream().PredictedList(0); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, want %#v", name, got, c.want)
		}
	}
}

// Streams without a row in the range of steps are left out and counted.
func TestSkipped(t *testing.T) {
	src := filepath.Join(t.TempDir(), "uneven.parquet")
	w, err := trace.Create(src, rankMeta)
	fatal.If(t, err)
	for layer, steps := range [][]int32{{0, 1, 2}, {0}, {2, 3}} {
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: int32(layer), Head: trace.NoHead}, PromptLen: 40})
		for _, step := range steps {
			s.Append(trace.Row{Step: step, Indices: []int32{3}})
		}
		fatal.If(t, w.Write(&s))
	}
	fatal.If(t, w.Close())
	if _, got, r := derived(t, src, Options{Steps: &Steps{1, 3}}); r.Streams != 2 || r.Skipped != 1 || r.Rows != 3 || len(got) != 2 || got[1].Layer != 2 {
		t.Errorf("%+v, expected layers 0 and 2, and layer 1 skipped", r)
	}
	_, err = Derive(t.Context(), src, filepath.Join(t.TempDir(), "out.parquet"), Options{Steps: &Steps{5, 9}})
	if err == nil || !strings.Contains(err.Error(), "no stream has a step in 5:9, the trace has steps 0 to 3") {
		t.Errorf("beyond all steps: %v", err)
	}
}

// Selections keep rows unchanged. Several selections intersect.
func TestSelect(t *testing.T) {
	src := source(t, 5, rankMeta)
	_, want := load(t, src)
	_, got, r := derived(t, src, Options{Requests: []string{"b"}, Layers: []int32{1, 0}, Heads: []int32{1}, Steps: &Steps{-2, 3}})
	if r.Streams != 2 || r.Rows != 10 || r.Skipped != 0 {
		t.Errorf("%+v, expected 2 streams of 5 rows", r)
	}
	full, indices := rows(want), int64(0)
	for _, row := range rows(got) {
		indices += int64(len(row.Indices))
	}
	if r.Indices != indices {
		t.Errorf("%d indices, the rows have %d", r.Indices, indices)
	}
	for key, row := range rows(got) {
		if !reflect.DeepEqual(row, full[key]) {
			t.Errorf("%s: %+v, expected %+v", key, row, full[key])
		}
	}
	if _, got, _ := derived(t, src, Options{Layers: []int32{1}}); len(got) != 4 || slices.ContainsFunc(got, func(s trace.Stream) bool { return s.Layer != 1 }) {
		t.Errorf("of layer 1: %d streams", len(got))
	}
	for i := range got {
		if got[i].Request != "b" || got[i].Head != 1 || got[i].FirstStep != -2 || got[i].LastStep != 2 || got[i].Windows != 2 {
			t.Errorf("%+v", got[i].StreamInfo)
		}
	}
}

// The same input gives the same bytes.
func TestDeterministic(t *testing.T) {
	src := source(t, 6, rankMeta)
	var files [][]byte
	for range 2 {
		dst := filepath.Join(t.TempDir(), "out.parquet")
		if _, err := Derive(t.Context(), src, dst, Options{TopK: 4, Candidates: 4, BlockTokens: 2, Union: true}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(dst)
		fatal.If(t, err)
		files = append(files, raw)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two runs wrote different bytes")
	}
}

// An impossible derivation gives an error with the cause and leaves no file.
func TestErrors(t *testing.T) {
	rank := source(t, 7, rankMeta)
	index := source(t, 7, trace.Meta{Order: trace.OrderIndex, TopK: 12, Candidates: 12, BlockTokens: 4})
	shared := filepath.Join(t.TempDir(), "shared.parquet")
	if _, err := Derive(t.Context(), rank, shared, Options{Union: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		src  string
		o    Options
		text string
	}{
		{index, Options{TopK: 4}, "order=index: the source gives no ranks"},
		{rank, Options{Candidates: 13}, "exceeds M = 12 of the source"},
		{rank, Options{Candidates: 5}, "is below K = 8: lower --topk too"},
		{rank, Options{TopK: 13}, "--topk 13 exceeds M = 12"},
		{rank, Options{TopK: 7, Candidates: 6}, "--topk 7 exceeds --candidates 6"},
		{rank, Options{TopK: 8, Candidates: 8, BlockTokens: 1 << 31}, "--block-tokens 2147483648: expected at most 1073741824"},
		{rank, Options{TopK: -1}, "expected positive numbers"},
		{rank, Options{BlockTokens: 4}, "Drop them: --topk 8 --candidates 8"},
		{index, Options{BlockTokens: 6}, "expected a multiple of the source's 4"},
		{rank, Options{Layers: []int32{7}}, "no layer 7 (the trace has 2 layers: 0, 1)"},
		{rank, Options{Requests: []string{"c"}}, "no request c (the trace has 2 requests: a, b)"},
		{rank, Options{Heads: []int32{2}}, "no head 2 (the trace has 2 heads: 0, 1)"},
		{rank, Options{Steps: &Steps{10, 20}}, "no stream has a step in 10:20, the trace has steps -4 to 5"},
		{rank, Options{Union: true, Candidates: 10}, "no ranks and no candidates"},
		{shared, Options{Union: true}, "share its selection already"},
		{shared, Options{Heads: []int32{0}}, "the trace has none (shared by the layer)"},
	} {
		dst := filepath.Join(t.TempDir(), "out.parquet")
		_, err := Derive(t.Context(), c.src, dst, c.o)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: error %v, expected %q", &c.o, err, c.text)
		}
		if _, err := os.Stat(dst); !os.IsNotExist(err) {
			t.Errorf("%v left a file", &c.o)
		}
	}
	var unknown *UnknownError
	if _, err := Derive(t.Context(), rank, shared, Options{Requests: []string{"c"}}); !errors.As(err, &unknown) || unknown.Kind != "request" {
		t.Errorf("error %v is no UnknownError", err)
	}
	if _, err := Derive(t.Context(), rank, rank, Options{}); err == nil || !strings.Contains(err.Error(), "also an input") {
		t.Errorf("onto itself: %v", err)
	}
}

// Ranges keep an error about one of many layers short.
func TestUnknownErrorCounts(t *testing.T) {
	for want, known := range map[string][]string{
		"no layer 99 (the trace has 4 layers: 0-3)":                                                                    {"0", "1", "2", "3"},
		"no layer 99 (the trace has 5 layers: 0, 5, 7-9)":                                                              {"0", "5", "7", "8", "9"},
		"no layer 99 (the trace has 21 layers: 0, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9 and 1 more)": slices.Concat([]string{"0"}, slices.Repeat([]string{"9", "1"}, 10)),
	} {
		if got := (&UnknownError{"layer", "99", known}).Error(); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}

// Requests with the same single layer keep separate unions.
func TestUnionKeepsRequestsApart(t *testing.T) {
	src := source(t, 8, rankMeta)
	one := filepath.Join(t.TempDir(), "one.parquet")
	if _, err := Derive(t.Context(), src, one, Options{Layers: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	_, want, _ := derived(t, src, Options{Union: true})
	_, got, r := derived(t, one, Options{Union: true})
	if r.Streams != 2 || len(got) != 2 {
		t.Fatalf("%+v, expected a stream of each request", r)
	}
	for i, s := range got { // want has layers 0 and 1 of each
		if w := &want[2*i+1]; s.Key != w.Key || !slices.Equal(s.Indices, w.Indices) || !slices.Equal(s.Offsets, w.Offsets) {
			t.Errorf("%v is not the union of its heads alone", s.Key)
		}
	}
}

// The union of heads requires the same steps in all heads and the same number of heads in every
// layer.
func TestUnionOfDifferentHeads(t *testing.T) {
	for name, c := range map[string]struct {
		steps [][]int32 // of the heads of layer 0, then of the single head of layer 1
		want  string
	}{
		"other step":      {[][]int32{{0, 1}, {0, 2}}, "record different steps (row 1)"},
		"step less":       {[][]int32{{0, 1}, {0}}, "record different steps (row 1)"},
		"step more":       {[][]int32{{0}, {0, 1}}, "record different steps (row 1)"},
		"layer of a head": {[][]int32{{0, 1}, {0, 1}, {0, 1}}, "expected equal numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "uneven.parquet")
			w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 1, BlockTokens: 1})
			fatal.If(t, err)
			for i, steps := range c.steps {
				var s trace.Stream
				s.Reset(trace.StreamInfo{Key: trace.Key{Request: "a", Layer: int32(i / 2), Head: int32(i % 2)}, PromptLen: 9})
				for _, step := range steps {
					s.Append(trace.Row{Step: step, Indices: []int32{1}})
				}
				fatal.If(t, w.Write(&s))
			}
			fatal.If(t, w.Close())
			if _, err := Derive(t.Context(), path, path+".out", Options{Union: true}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q", err, c.want)
			}
		})
	}
}

// ParseSteps reads the output of String.
func TestParseSteps(t *testing.T) {
	for _, text := range []string{"-32:64", "0:", ":64"} {
		s, err := ParseSteps(text)
		if err != nil || s.String() != text {
			t.Errorf("%q: %v, error %v", text, s, err)
		}
	}
	for _, text := range []string{"", ":", "5", "5:5", "6:5", "a:b", "1:2:3", "x:3", "3:x", "99999999999:"} {
		if _, err := ParseSteps(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// The note states the options as flags, in a fixed order with sorted lists of distinct members.
func TestOptionsText(t *testing.T) {
	steps, err := ParseSteps("-4:9")
	fatal.If(t, err)
	for want, o := range map[string]Options{
		"": {},
		"--topk 3 --candidates 5 --block-tokens 2": {TopK: 3, Candidates: 5, BlockTokens: 2},
		"--requests a,b --layers 0,7 --heads 1,2":  {Requests: []string{"b", "a", "b"}, Layers: []int32{7, 0, 7}, Heads: []int32{2, 1}},
		"--layers 3 --heads union --steps -4:9":    {Layers: []int32{3}, Union: true, Steps: steps},
	} {
		if got := o.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Dropped lists only columns that the source has.
func TestDropsWhatIsThere(t *testing.T) {
	src := filepath.Join(t.TempDir(), "bare.parquet")
	w, err := trace.Create(src, rankMeta)
	fatal.If(t, err)
	for head := range int32(2) {
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: head}, PromptLen: 40})
		s.Append(trace.Row{Indices: []int32{3, 1, 4}})
		fatal.If(t, w.Write(&s))
	}
	fatal.If(t, w.Close())
	for _, o := range []Options{{TopK: 2, Candidates: 2}, {Union: true}} {
		if m, _, r := derived(t, src, o); r.Dropped != nil || m.ScoreMantissaBits != nil {
			t.Errorf("%v: dropped %v, of a trace of indices alone", &o, r.Dropped)
		}
	}
}
