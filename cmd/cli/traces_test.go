package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// Traces whose rows could not be told apart, or that rows cannot name, are refused before
// anything is replayed.
func TestTraceNames(t *testing.T) {
	good := smallTrace(t, small)
	other := small
	other.Prompt = 90
	for name, c := range map[string]struct {
		paths []string
		code  int
		want  string
	}{
		"twice":        {[]string{good, filepath.Dir(good) + "/./small.parquet"}, 2, "is named twice"},
		"one name":     {[]string{good, smallTrace(t, other)}, 2, "have the same file name"},
		"one digest":   {[]string{good, tracetest.Copy(t, good, "b.parquet")}, 2, "are the same trace (digest "},
		"escape":       {[]string{tracetest.Copy(t, good, "a\x1b[1m.parquet")}, 1, "is not printable UTF-8"},
		"two lines":    {[]string{tracetest.Copy(t, good, "a\nb.parquet")}, 1, "is not printable UTF-8"},
		"no UTF-8":     {[]string{tracetest.Copy(t, good, "a\xff.parquet")}, 1, "is not printable UTF-8"},
		"long names":   {[]string{tracetest.Copy(t, good, strings.Repeat("x", 245)+".parquet")}, 0, "4 rows"},
		"long letters": {[]string{tracetest.Copy(t, good, "a"+strings.Repeat("é", 122)+".parquet")}, 0, "4 rows"},
	} {
		out := t.TempDir()
		code, _, stderr := run(append([]string{"replay", "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--out", out, "--profile"}, c.paths...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s, expected %d and %q", name, code, stderr, c.code, c.want)
		}
		if cells, _ := filepath.Glob(filepath.Join(out, "cells", "*")); c.code != 0 && len(cells) > 0 {
			t.Errorf("%s: cells were kept", name)
		}
		if c.code == 0 {
			if code, _, stderr := run("leaderboard", out, "--out", t.TempDir()); code != 0 {
				t.Errorf("%s: the board of it: %s", name, stderr)
			}
		}
	}
}
