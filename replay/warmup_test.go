package replay

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// A warm-up that is left open is that of the stream with the fewest windows, and a run says
// which stream that is: in a note, or in the warning of rows that start cold for it.
func TestWarmupOfUnequalWindows(t *testing.T) {
	for _, c := range []struct {
		windows        []int
		warmup         Warmup
		ran, note, why string
	}{
		{[]int{8, 8}, Warmup{}, "lru:8", "", ""},
		{[]int{8, 3}, Warmup{}, "lru:3", `request "1" layer 0 has 3 prompt windows, others up to 8`, ""},
		{[]int{8, 0}, Warmup{}, "cold", "", `cold start: request "1" layer 0 has no prompt windows to warm up on, others have up to 8`},
		{[]int{0, 8}, Warmup{}, "cold", "", `cold start: request "0" layer 0 has no prompt windows to warm up on, others have up to 8`},
		{[]int{0, 8}, Warmup{Kind: WarmupCold}, "cold", "", "cold start: no warm-up before step 0"},
		{[]int{0, 0}, Warmup{}, "cold", "", "cold start: the trace has no prompt windows to warm up on"},
	} {
		r, err := Run(context.Background(), withWindows(t, c.windows), Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x"), Warmup: c.warmup})
		if err != nil {
			t.Fatal(err)
		}
		row := r.Rows[0]
		if row.Warmup != c.ran || strings.Join(row.Warnings, "; ") != c.why {
			t.Errorf("windows %v, warm-up %v: ran %s with warnings %q, expected %s, %q", c.windows, c.warmup, row.Warmup, row.Warnings, c.ran, c.why)
		}
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "windows") {
			t.Errorf("windows %v: notes %q, expected %q", c.windows, notes, c.note)
		}
	}
}

// withWindows is a trace of a stream for each number of prompt windows.
func withWindows(t *testing.T, windows []int) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "windows.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 8, Candidates: 12, BlockTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range windows {
		s := replaytest.Stream(rand.New(rand.NewPCG(1, 2)), replaytest.Options{Prompt: 60, Steps: 10, Windows: n, M: 12, Locality: 0.9, Local: 1})
		s.Key = trace.Key{Request: string(rune('0' + i)), Head: trace.NoHead}
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	return reopen(t, w, path)
}
