package cli_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// --split ranks on a part of the corpus, and the board names version and part. Other rows are refused.
func TestSplit(t *testing.T) {
	out := t.TempDir()
	traces, err := filepath.Glob("../../datasets/corpus/[dw]*_*.parquet") // deep and wide
	fatal.If(t, err)
	args := append([]string{"replay"}, traces...)
	must(t, append(args, "--policy", "lru,fifo,opt", "--capacity", "2x", "--out", out)...)
	version := corpus.Latest()
	for _, part := range []corpus.Split{corpus.Whole, corpus.Open, corpus.HeldOut} {
		code, text, stderr := run("leaderboard", out, "--split", string(part), "--format", "json")
		var b struct {
			Corpus string
			Traces []struct{ Trace string }
		}
		// Rows that are in two places have to be read at once.
		if _, again, _ := run("leaderboard", out, out, "--split", string(part), "--format", "json"); again != text {
			t.Errorf("%s: rows that are read at once give another board", part)
		}
		if err := json.Unmarshal([]byte(text), &b); code != 0 || err != nil {
			t.Fatalf("%s: %v, %s", part, err, stderr)
		}
		var names []string
		for _, trace := range b.Traces {
			names = append(names, trace.Trace)
		}
		if !slices.Equal(names, version.Part(part)) || b.Corpus != fmt.Sprintf("version %d, %s", version.Number, part) {
			t.Errorf("%s: %q on %v, expected %v", part, b.Corpus, names, version.Part(part))
		}
	}
	for _, plot := range []string{"ranking", "curve"} {
		var drawn [2]string
		for i, rows := range [][]string{{out}, {out, out}} {
			path := filepath.Join(t.TempDir(), "plot.svg")
			must(t, append([]string{"plot", plot, "-o", path}, rows...)...)
			drawn[i] = content(t, path)
		}
		if drawn[0] != drawn[1] {
			t.Errorf("plot %s: rows that are read at once give another figure", plot)
		}
	}
	if code, text, _ := run("leaderboard", out, "--split", "held-out", "--notes"); code != 0 || !strings.Contains(text, "Corpus version 1, held-out") {
		t.Errorf("exit code %d: %s", code, text)
	}
	wantRefused(t, 1, "the rows lack", "leaderboard", "../../metrics/testdata/rows.jsonl", "--split", "open")
}
