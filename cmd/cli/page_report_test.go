package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Pages of compare, time, systems and reproduce state their finding, command and version.
func TestReportPages(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", newsTrace, "--policy", "lru,fifo", "--capacity", "2x", "--per", "request", "--profile", "--out", out)
	trace := "../../datasets/corpus/selectors_qa_text.exact.parquet"
	for want, args := range map[string][]string{
		"fifo misses 1.":                   {"compare", "fifo", "lru", out},
		"Every policy against lru.":        {"compare", "--all", "lru", out},
		"on h100 with schedule da.":        {"time", out, "--policy", "lru", "--hardware", "h100,rtx4090", "--schedule", "da,dba", "--batch", "4", "--model", "llama-3-8b", "--layer-map", "stretch"},
		"ess is the fastest sparse system": {"systems", trace, "--systems", "ess,dense-gpu", "--model", "llama-3-8b", "--context", "32768"},
		"kvreplay checks":                  {"reproduce", "kvpr"},
	} {
		code, page, stderr := run(append(args, "--format", "html")...)
		_, finding, _ := strings.Cut(page, `<p class="finding">`)
		if code != 0 || !strings.HasPrefix(page, "<!DOCTYPE html>") || !strings.Contains(finding[:min(200, len(finding))], want) {
			t.Errorf("%v: exit code %d, %s, finding %.200q, expected %q", args, code, stderr, finding, want)
		}
		for _, part := range []string{"Made by <code>kvreplay " + args[0], "<table>", "kvreplay version "} {
			if !strings.Contains(page, part) {
				t.Errorf("%v: the page lacks %q", args, part)
			}
		}
	}
}

// A page of rows by stream is the same if rows are read at once. They are if those of a cell are in
// several places.
func TestPageOfScatteredRows(t *testing.T) {
	dir, scattered := t.TempDir(), filepath.Join(t.TempDir(), "scattered.jsonl")
	must(t, "replay", "../../datasets/corpus/deep_vt.parquet", "--policy", "lru,opt", "--capacity", "2x", "--per", "stream", "--out", dir)
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	var text strings.Builder
	for _, line := range strings.SplitAfter(folderText(t, dir), "\n")[1:] { // after the name
		text.WriteString(line)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	var halves [2]string
	for i, line := range lines {
		halves[i%2] += line
	}
	for path, text := range map[string]string{rows: text.String(), scattered: halves[0] + halves[1]} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
	got, want := must(t, "leaderboard", rows, "--format", "html"), must(t, "leaderboard", scattered, "--format", "html")
	if want = strings.ReplaceAll(want, scattered, rows); got != want || !strings.Contains(got, `"heat":[{`) {
		t.Errorf("pages of %d and %d bytes differ, or lack heat maps", len(got), len(want))
	}
}
