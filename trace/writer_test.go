package trace_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// The writer refuses the streams that the reader refuses, and leaves no file.
func TestWriterRefuses(t *testing.T) {
	stream := func(layer int32, rows ...trace.Row) *trace.Stream {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: layer, Head: trace.NoHead}, PromptLen: 9})
		for _, row := range rows {
			s.Append(row)
		}
		return s
	}
	good := trace.Row{Indices: []int32{4, 2}, Scores: []float32{2, 1}}
	of := func(key trace.Key, prompt int32) *trace.Stream {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: key, PromptLen: prompt})
		s.Append(trace.Row{Step: 1, Indices: []int32{0}, Scores: []float32{1}})
		return s
	}
	for name, c := range map[string]struct {
		second *trace.Stream
		rule   string
		text   string
	}{
		"no rows":         {stream(2), trace.RuleKey, "stream has 0 rows"},
		"key order":       {stream(0, good), trace.RuleKey, `comes after request "r" layer 1`},
		"step order":      {stream(2, trace.Row{Step: 1, Indices: []int32{1}}, trace.Row{Step: 1, Indices: []int32{1}}), trace.RuleKey, "step 1 after step 1"},
		"no context":      {stream(2, trace.Row{Step: -10, Indices: []int32{0}}), trace.RuleSeqLen, "context of 0 tokens"},
		"long context":    {of(trace.Key{Request: "s", Head: trace.NoHead}, math.MaxInt32-1), trace.RuleSeqLen, "step 1 with prompt_len 2147483646 has a context of 2147483648 tokens"},
		"score count":     {stream(2, trace.Row{Indices: []int32{4, 2}, Scores: []float32{2}}), trace.RuleScore, "1 scores for 2 indices"},
		"mass count":      {stream(2, trace.Row{Indices: []int32{4, 2}, AttentionMass: []float32{1}}), trace.RuleMass, "1 attention masses"},
		"other columns":   {stream(2, trace.Row{Indices: []int32{4, 2}}), trace.RuleSchema, "differ from the first stream"},
		"index":           {stream(2, trace.Row{Indices: []int32{10, 2}, Scores: []float32{2, 1}}), trace.RuleIndex, "topk_indices[0] = 10"},
		"request id":      {&trace.Stream{StreamInfo: trace.StreamInfo{Key: trace.Key{Request: "\xff", Head: trace.NoHead}, Rows: 1}}, trace.RuleKey, `request_id "\xff", expected UTF-8`},
		"negative layer":  {of(trace.Key{Request: "s", Layer: -1, Head: trace.NoHead}, 9), trace.RuleKey, "layer -1, head -1, prompt_len 9, expected none below 0"},
		"negative head":   {of(trace.Key{Request: "s", Head: -2}, 9), trace.RuleKey, "layer 0, head -2, prompt_len 9, expected none below 0"},
		"negative prompt": {of(trace.Key{Request: "s", Head: trace.NoHead}, -1), trace.RuleKey, "layer 0, head -1, prompt_len -1, expected none below 0"},
	} {
		path := filepath.Join(t.TempDir(), "w.parquet")
		w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 2, BlockTokens: 1})
		fatal.If(t, err)
		fatal.If(t, w.Write(stream(1, good)))
		if e := trace.AsError(w.Write(c.second)); e == nil || e.Rule != c.rule || !strings.Contains(e.Error(), c.text) {
			t.Errorf("%s: error %v, expected rule %q with %q", name, e, c.rule, c.text)
		}
		w.Abort()
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s left a file", name)
		}
	}
}

// A refused stream leaves no mark. The corrected stream is accepted, also with other columns. A
// file with only refused streams is an error.
func TestWriterAfterRefusal(t *testing.T) {
	stream := func(index int32, scores []float32) *trace.Stream {
		s := &trace.Stream{}
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 10})
		s.Append(trace.Row{Indices: []int32{index}, Scores: scores})
		return s
	}
	path := filepath.Join(t.TempDir(), "w.parquet")
	for _, corrected := range []bool{false, true} {
		w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, BlockTokens: 1})
		fatal.If(t, err)
		if e := trace.AsError(w.Write(stream(99, []float32{1}))); e == nil || e.Rule != trace.RuleIndex {
			t.Fatalf("an index past the context: %v", e)
		}
		if !corrected {
			if err := w.Close(); err == nil || !strings.Contains(err.Error(), "no stream was written") {
				t.Errorf("a file without rows is closed: %v", err)
			}
			continue
		}
		fatal.If(t, w.Write(stream(9, nil)))
		fatal.If(t, w.Close())
	}
	if v, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool { t.Error(e); return true }); err != nil || v.Rows != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The writer sets K and M to the length of the longest list if the caller leaves them out.
func TestWriterFillsIn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ k, m, wantK, wantM int }{{0, 0, 7, 7}, {3, 0, 3, 7}, {9, 0, 9, 9}, {3, 12, 3, 12}} {
		s := randomStream(r, trace.Key{Request: "r"}, 100, 0, 5, 7, 0)
		f, err := trace.Open(writeTrace(t, trace.Meta{Order: trace.OrderRank, TopK: c.k, Candidates: c.m, BlockTokens: 1}, s))
		fatal.If(t, err)
		if m := f.Meta(); m.TopK != c.wantK || m.Candidates != c.wantM {
			t.Errorf("K %d, M %d became K %d, M %d, expected %d and %d", c.k, c.m, m.TopK, m.Candidates, c.wantK, c.wantM)
		}
		f.Close()
	}
}

// Readers of one file work concurrently, each in its own order.
func TestConcurrentReaders(t *testing.T) {
	path := interopSample(t, trace.ReadAll)
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() {
			reader := f.NewReader(trace.ReadAll)
			defer reader.Close()
			var s trace.Stream
			for _, i := range rand.New(rand.NewPCG(worker, 1)).Perm(len(f.Streams())) {
				if err := reader.Read(i, &s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
