package run

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The warm-up auto uses the windows of the stream that has fewest. A note names this stream. If it
// has no window, rows name it in a warning about the cold start.
func TestWarmupOfUnequalWindows(t *testing.T) {
	for _, c := range []struct {
		windows        []int
		warmup         setting.Warmup
		ran, note, why string
	}{
		{[]int{8, 8}, setting.Warmup{}, "lru:8", "", ""},
		{[]int{8, 3}, setting.Warmup{}, "lru:3", `request "1" layer 0 has 3 prompt windows, others up to 8`, ""},
		{[]int{8, 0}, setting.Warmup{}, "cold", "", `cold start: request "1" layer 0 has no prompt windows, others have up to 8`},
		{[]int{0, 8}, setting.Warmup{}, "cold", "", `cold start: request "0" layer 0 has no prompt windows, others have up to 8`},
		{[]int{0, 8}, setting.Warmup{Kind: setting.WarmupCold}, "cold", "", "cold start: no warm-up before step 0"},
		{[]int{0, 0}, setting.Warmup{}, "cold", "", "cold start: the trace has no prompt windows"},
	} {
		r, err := Run(context.Background(), withWindows(t, c.windows), Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Warmup: c.warmup})
		fatal.If(t, err)
		row := r.Rows[0]
		if row.Warmup != c.ran || strings.Join(row.Warnings, "; ") != c.why {
			t.Errorf("windows %v, warm-up %v: ran %s with warnings %q, expected %s, %q", c.windows, c.warmup, row.Warmup, row.Warnings, c.ran, c.why)
		}
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "windows") {
			t.Errorf("windows %v: notes %q, expected %q", c.windows, notes, c.note)
		}
	}
}

// The example is worked out by hand. The window of layer 0 ranks 5 6 8 9, that of layer 1 ranks
// 7 5 3 2. Summed over the request, 5 has importance 1.2, 7 has 1.0 and 6 has 0.8. Caches of two
// blocks begin with 5 6 in layer 0 and 7 5 in layer 1. With scope=request both begin with 5 7. A
// tier of two blocks begins with the next two blocks of its stream.
func TestImportanceByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "importance.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 2, Candidates: 4, BlockTokens: 1})
	fatal.If(t, err)
	for layer, rows := range [][]trace.Row{
		{{Step: -1, Indices: []int32{5, 6, 8, 9}, Scores: []float32{0.9, 0.8, 0.2, 0.1}}, {Indices: []int32{7, 5, 8, 9}, Scores: []float32{4, 3, 2, 1}}},
		{{Step: -1, Indices: []int32{7, 5, 3, 2}, Scores: []float32{1, 0.3, 0.2, 0.1}}, {Indices: []int32{3, 2, 7, 5}, Scores: []float32{4, 3, 2, 1}}},
	} {
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Layer: int32(layer), Head: trace.NoHead}, PromptLen: 20})
		for _, row := range rows {
			s.Append(row)
		}
		fatal.If(t, w.Write(&s))
	}
	f := reopen(t, w, path)
	for _, c := range []struct {
		warmup string
		tiers  []setting.Tier
		want   []int64 // misses of layers 0 and 1, then of the tiers below them
	}{
		{"importance:1", nil, []int64{1, 2}},
		{"importance:1,scope=request", nil, []int64{0, 2}},
		{"importance:1", tiers(t, "dram=lru@2"), []int64{1, 2, 1, 0}},               // layer 0 misses 7 in both
		{"importance:1,scope=request", tiers(t, "dram=lru@2"), []int64{0, 2, 0, 1}}, // the tiers hold 6 8 and 3 2
	} {
		warmup, err := setting.ParseWarmup(c.warmup)
		fatal.If(t, err)
		var got []int64
		for _, r := range mustRun(t, f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2"), Warmup: warmup, Tiers: c.tiers, Per: PerStream, Referee: true}) {
			got = append(got, r.Misses)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, tiers %v: misses %v, expected %v", c.warmup, c.tiers, got, c.want)
		}
	}
}

// withWindows returns a trace with one stream for each given number of prompt windows.
func withWindows(t *testing.T, windows []int) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windows.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 8, Candidates: 12, BlockTokens: 1})
	fatal.If(t, err)
	for i, n := range windows {
		s := replaytest.Stream(rand.New(rand.NewPCG(1, 2)), replaytest.Options{Prompt: 60, Steps: 10, Windows: n, M: 12, Locality: 0.9, Local: 1})
		s.Key = trace.Key{Request: string(rune('0' + i)), Head: trace.NoHead}
		fatal.If(t, w.Write(s))
	}
	return reopen(t, w, path)
}
