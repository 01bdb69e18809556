package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Runs with different settings add up in the one rows file of the trace. Runs with equal settings
// replace each other's rows, in any spelling.
func TestRunsInOneFolderAddUp(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir() // the trace states sink 2
	for _, more := range [][]string{{}, {"--sink", "2"}, {"--sink", "0"}, {"--warmup", "cold"}, {"--sink", "0", "--seed", "0"}} {
		kvreplay(t, 0, append([]string{"replay", path, "--policy", "lru", "--capacity", "2x", "--out", out}, more...)...)
	}
	rows, err := result.ReadRows(rowsPath(t, out))
	if err != nil || len(rows) != 3 {
		t.Errorf("%d rows, %v, expected one each for sink 2, sink 0 and cold", len(rows), err)
	}
}

// A run with more policies replaces the rows file with one that has every cell once. The order of
// the runs does not change its bytes.
func TestSupersetRunReplacesRows(t *testing.T) {
	path, first, second := smallTrace(t, small), t.TempDir(), t.TempDir()
	replay := func(out, policies string) {
		kvreplay(t, 0, "replay", path, "--policy", policies, "--capacity", "1x,2x", "--per", "request", "--out", out)
	}
	replay(first, "lru,opt")
	replay(first, "opt,lru,fifo")
	replay(second, "fifo")
	replay(second, "lru,opt")
	want := rowsOf(t, first)
	if n := bytes.Count(want, []byte("\n")); n != 6 {
		t.Errorf("%d rows of 3 policies at 2 capacities:\n%s", n, want)
	}
	if got := rowsOf(t, second); !bytes.Equal(got, want) {
		t.Errorf("in another order:\n%s\nwant\n%s", got, want)
	}
	replay(first, "lru")
	if got := rowsOf(t, first); !bytes.Equal(got, want) {
		t.Errorf("a run with fewer policies took rows away:\n%s", got)
	}
	// Edited counts are replaced by those of the kept cells in any run.
	fatal.If(t, os.WriteFile(rowsPath(t, first), bytes.ReplaceAll(want, []byte(`"evictions":`), []byte(`"evictions":1`)), 0o644))
	replay(first, "fifo")
	if got := rowsOf(t, first); !bytes.Equal(got, want) {
		t.Errorf("edited rows stayed:\n%s", got)
	}
	// Without the kept cells, rows that are not replayed stay unchanged.
	fatal.If(t, os.RemoveAll(filepath.Join(first, "cells")))
	replay(first, "fifo")
	if got := rowsOf(t, first); !bytes.Equal(got, want) {
		t.Errorf("rows without cells were lost:\n%s", got)
	}
}

// Concurrent runs of different policies into one folder lose no rows.
func TestRunsAtOnceAddUp(t *testing.T) {
	path, out, calm := smallTrace(t, small), t.TempDir(), t.TempDir()
	var names []string
	var all sync.WaitGroup
	for _, policy := range []string{"lru", "fifo", "opt", "lfu", "lookahead", "s3-fifo"} {
		names = append(names, policy)
		all.Go(func() {
			if code, _, stderr := run("replay", path, "--policy", policy, "--capacity", "1x,2x", "--out", out); code != 0 {
				t.Errorf("%s: %s", policy, stderr)
			}
		})
	}
	all.Wait()
	kvreplay(t, 0, "replay", path, "--policy", strings.Join(names, ","), "--capacity", "1x,2x", "--out", calm)
	if got, want := rowsOf(t, out), rowsOf(t, calm); !bytes.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	kvreplay(t, 0, "leaderboard", out)
}
