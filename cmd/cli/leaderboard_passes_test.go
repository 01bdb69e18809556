package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
)

// atFirstWrite calls do before it keeps the first text.
type atFirstWrite struct {
	text bytes.Buffer
	do   func()
}

func (w *atFirstWrite) Write(p []byte) (int, error) {
	if do := w.do; do != nil {
		w.do = nil
		do()
	}
	return w.text.Write(p)
}

// sortedRows returns the synthetic rows, warmed and cold, in the order of MergeRows.
func sortedRows(t *testing.T) []result.Row {
	t.Helper()
	rows, err := result.ReadRows(syntheticRows)
	fatal.If(t, err)
	cold := slices.Clone(rows)
	for i := range cold {
		cold[i].Warmup = result.ColdStart
	}
	return result.MergeRows(rows, cold)
}

func writeLines(t *testing.T, path string, rows []result.Row) {
	t.Helper()
	var lines bytes.Buffer
	fatal.If(t, result.WriteJSONL(&lines, rows))
	fatal.If(t, os.WriteFile(path, lines.Bytes(), 0o600))
}

// leaderboard --out fails and writes nothing if rows are replaced after the board read them and before
// it writes them. A profile that cannot be read makes it print a message in between.
func TestLeaderboardOutOfChangedRows(t *testing.T) {
	rows := sortedRows(t)
	reversed := slices.Clone(rows)
	slices.Reverse(reversed)
	for name, rows := range map[string][]result.Row{"sorted": rows, "reversed": reversed} {
		results, out := t.TempDir(), filepath.Join(t.TempDir(), "board")
		path := filepath.Join(results, "t.rows.jsonl")
		writeLines(t, path, rows)
		fatal.If(t, os.WriteFile(filepath.Join(results, "t.profile-lru.parquet"), []byte("no profile"), 0o600))
		stderr := &atFirstWrite{do: func() { writeLines(t, path, rows[:len(rows)-1]) }}
		var stdout bytes.Buffer
		code := Main(all.Table(), []string{"leaderboard", results, "--out", out}, &stdout, stderr)
		if want := path + ": was changed while kvreplay read it"; code != exitFailed || stdout.Len() > 0 || !strings.Contains(stderr.text.String(), want) {
			t.Errorf("%s: exit %d, stderr %q; want %q", name, code, stderr.text.String(), want)
		}
		if stderr.do != nil {
			t.Errorf("%s: no message between the passes", name)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("%s: the folder has %v, %v", name, left, err)
		}
	}
}

// Sorted rows, warmed and cold, make boards and rows.parquet one at a time. Others make the same file.
func TestSortedRowsOneAtATime(t *testing.T) {
	rows := sortedRows(t)
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	writeLines(t, path, rows)
	of := choice{split: corpus.Whole}
	boards, from, err := of.readBoards(t.Context(), []string{path}, board.Options{Resamples: 10})
	if err != nil || from.files == nil || len(boards) != 2 {
		t.Fatalf("%d boards from %v, %v", len(boards), from, err)
	}
	var want, got bytes.Buffer
	fatal.If(t, result.WriteParquet(&want, rows))
	if err := of.writeSorted(&got, from.files); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("rows.parquet of sorted rows: %v, or other bytes", err)
	}
	slices.Reverse(rows)
	writeLines(t, path, rows)
	files, err := result.NewFiles(path)
	fatal.If(t, err)
	got.Reset()
	if err := of.writeSorted(&got, files); !errors.Is(err, result.ErrNotSorted) {
		t.Errorf("reversed rows: %v", err)
	}
	got.Reset()
	if err := of.writeParquet(t.Context(), &got, files); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("rows.parquet of reversed rows: %v, or other bytes", err)
	}
}

// A stopped use of results shares nothing with the work that it leaves behind. The race detector checks this.
func TestStoppedCollectLeavesWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	writeLines(t, path, sortedRows(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	used := make(chan struct{})
	made, from, err := useResults(ctx, []string{path}, choice{split: corpus.Whole}, func(*results) (int, error) {
		close(used)
		return 1, nil
	})
	<-used
	if made != 0 || from != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%d from %v, %v", made, from, err)
	}
}
