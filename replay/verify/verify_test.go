package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

const (
	bundled  = "../../datasets/bundled"
	newsPath = bundled + "/smollm2_multi_news_8k.parquet"
	niahPath = bundled + "/smollm2_niah_1k_sglang.parquet"
	coldPath = bundled + "/smollm2_niah_multikey_3_4k.parquet"
)

// replayed makes rows as `kvreplay replay` does.
func replayed(t *testing.T, path string, names, capacities []string, change func(*replay.Options)) []result.Row {
	t.Helper()
	var o replay.Options
	for _, name := range names {
		spec, err := all.Table().Parse(name)
		fatal.If(t, err)
		o.Policies = append(o.Policies, spec)
	}
	var err error
	if o.Capacities, err = replay.ParseCapacities(capacities); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	result, err := replay.Run(context.Background(), f, o)
	fatal.If(t, err)
	return result.Rows
}

func verified(t *testing.T, rows []result.Row, traces ...string) *Report {
	t.Helper()
	r, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: traces, Sample: All, Workers: 2})
	fatal.If(t, err)
	if n := r.Holding + r.Differing + r.Unverifiable; n != len(rows) || len(r.Outcomes) != len(rows) {
		t.Fatalf("%d rows, %d verdicts", len(rows), n)
	}
	return r
}

// wantAllHold prints the report unless every row holds.
func wantAllHold(t *testing.T, what string, rows []result.Row, traces ...string) {
	t.Helper()
	if r := verified(t, rows, traces...); r.Holding != len(rows) || len(rows) == 0 {
		var text strings.Builder
		fatal.If(t, r.RenderTable(&text))
		t.Errorf("%s: expected all rows to hold:\n%s", what, text.String())
	}
}

var someCapacities = []string{"1.5x", "0.1ctx", "100", "2MiB"}

// TestOwnRowsHold checks that the rows of replay hold at every level of detail, through JSON lines
// and CSV.
func TestOwnRowsHold(t *testing.T) {
	var rows []result.Row
	for _, per := range []replay.Detail{replay.PerCell, replay.PerRequest, replay.PerLayer, replay.PerStream} {
		rows = append(rows, replayed(t, niahPath, []string{"lru", "opt", "window:2"}, someCapacities, func(o *replay.Options) { o.Per = per })...)
	}
	for form, write := range map[string]func(io.Writer, []result.Row) error{"JSON lines": result.WriteJSONL, "CSV": result.WriteCSV} {
		var text bytes.Buffer
		fatal.If(t, write(&text, rows))
		read, err := result.DecodeRows(&text, form)
		fatal.If(t, err)
		wantAllHold(t, form, read, niahPath)
	}
}

// TestSettingsHold checks that rows with settings that the trace does not state are replayed with
// those settings.
func TestSettingsHold(t *testing.T) {
	four, two, size := 4, 2, 1000
	var rows []result.Row
	for _, change := range []func(*replay.Options){
		func(o *replay.Options) { o.Sink, o.Local = &four, &two },
		func(o *replay.Options) { o.EntryBytes = &size },
		func(o *replay.Options) { o.TopK, o.Candidates = 64, 80 },
		func(o *replay.Options) { o.Warmup = replay.Warmup{Kind: replay.WarmupImportance, Windows: 3} },
		func(o *replay.Options) { o.Warmup = replay.Warmup{Kind: replay.WarmupStaging} },
		func(o *replay.Options) { o.Warmup = replay.Warmup{Kind: replay.WarmupCold} },
		func(o *replay.Options) { o.Seed = 7 },
		func(o *replay.Options) { o.Shape = replay.Shape{BlockTokens: 8, StepTokens: 2} },
		func(o *replay.Options) { o.Pool = replay.PoolRequest },
	} {
		rows = append(rows, replayed(t, newsPath, []string{"lru", "random", "lookahead"}, []string{"1.5x", "64KiB"}, func(o *replay.Options) {
			o.Layers = []int32{0, 10}
			change(o)
		})...)
	}
	wantAllHold(t, "settings", rows, newsPath)
}

// manyRequests writes a trace whose ids contain commas, with two heads per layer.
func manyRequests(t *testing.T) string {
	t.Helper()
	o := replaytest.Options{Prompt: 60, Steps: 12, Windows: 4, M: 12, Locality: 0.8, Scores: true, Sink: 2, Local: 3}
	path := filepath.Join(t.TempDir(), "many.parquet")
	w, err := trace.Create(path, o.Meta(6))
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for _, id := range []string{"a", "a,b", "b", "c", "d,e"} {
		for head := range int32(2) {
			s := replaytest.Stream(r, o)
			s.Request, s.Head = id, head
			fatal.If(t, w.Write(s))
		}
	}
	fatal.If(t, w.Close())
	return path
}

func TestSelectedRequestsHold(t *testing.T) {
	path := manyRequests(t)
	for _, requests := range [][]string{nil, {"a"}, {"a,b"}, {"c", "d,e"}, {"c"}} {
		for _, per := range []replay.Detail{replay.PerCell, replay.PerStream} {
			rows := replayed(t, path, []string{"lru", "window:1"}, []string{"1x"}, func(o *replay.Options) { o.Requests, o.Per = requests, per })
			if slices.Equal(requests, []string{"a,b"}) { // the reading may be this id, or a and b
				if r := verified(t, rows, path); r.Unverifiable != len(rows) || !strings.Contains(r.Outcomes[0].Reason, "ambiguous") {
					t.Errorf("requests %q: %s", requests, r.Summary())
				}
				continue
			}
			wantAllHold(t, fmt.Sprintf("requests %q per %s", requests, per), rows, path)
		}
	}
}

func TestCancelled(t *testing.T) {
	rows := replayed(t, niahPath, []string{"lru"}, []string{"1x"}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Rows(ctx, rows, Options{Policies: all.Table(), Traces: []string{niahPath}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestCellsAreReplayedOnce checks that rows of one cell share a replay, in any order.
func TestCellsAreReplayedOnce(t *testing.T) {
	rows := replayed(t, niahPath, []string{"lru", "fifo"}, []string{"1x"}, func(o *replay.Options) { o.Per = replay.PerStream })
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	cells := 0
	r, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: []string{niahPath}, Sample: All, Progress: func(_, n int) { cells = n }})
	if err != nil || r.Holding != len(rows) || cells != 2 {
		t.Errorf("%v, %s, %d cells, expected 2", err, r.Summary(), cells)
	}
}
