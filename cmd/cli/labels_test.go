package cli_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A synthetic trace is labelled synthetic everywhere: when it is derived, in rows and profiles, and
// in the titles, files and plots of every command that shows its figures.
func TestSyntheticTracesStaySynthetic(t *testing.T) {
	dir := t.TempDir()
	made, path, out := filepath.Join(dir, "made.parquet"), filepath.Join(dir, "t.parquet"), filepath.Join(dir, "results")
	must(t, "datasets", "make", "synthetic", "-o", made, "--layers", "2", "--steps", "12", "--requests", "2", "--topk", "32", "--context", "1024")
	must(t, "derive", made, "-o", path, "--topk", "16", "--candidates", "16")
	must(t, "replay", path, "--policy", "lru,fifo,opt", "--capacity", "2x,4x", "--per", "request", "--out", out, "--profile")
	priced := []string{"--model", "smollm2-135m", "--layer-map", "nearest", "--steps", "2"}
	for _, c := range []struct {
		args  []string
		title string
	}{
		{[]string{"time", out, "--policy", "lru", "--capacity", "2x"}, "[synthetic trace, layers stretched"},
		{[]string{"time", out, "--policy", "opt", "--capacity", "2x", "--schedule", "gpu,prefetch"}, "[synthetic trace, layers stretched, oracle schedule: 1 of 2 lines, oracle policy: 1 of 2 lines"},
		{[]string{"time", out, "--policy", "lru", "--capacity", "2x", "--topk", "32", "--format", "json"}, `"K scaled ×2"`},
		{[]string{"plan", out, "--max-batch", "2"}, "[synthetic trace, layers stretched"},
		{[]string{"plan", out, "--max-batch", "2", "--format", "json"}, `"synthetic trace"`},
		{[]string{"replay", path, "--policy", "lru"}, "[synthetic trace] hit rate"},
		{[]string{"replay", path, sglangTrace, "--policy", "lru"}, "[synthetic trace: 1 of 2 traces, 1 request: 1 of 2 traces] hit rate"},
		{[]string{"leaderboard", out}, "[synthetic trace, TPOT: layers stretched, TPOT: fitted constant] Exact policies: misses"},
		{[]string{"leaderboard", out, "--by", "time", "--schedule", "prefetch"}, "[synthetic trace, layers stretched, oracle schedule, fitted constant] Exact policies: modelled time"},
		{[]string{"leaderboard", out, "--format", "markdown"}, `## \[synthetic trace] Traces`},
		{[]string{"leaderboard", out, "--format", "csv"}, `,"synthetic trace, TPOT: layers stretched, TPOT: fitted constant"`},
		{[]string{"leaderboard", out, "--format", "json"}, `"synthetic trace"`},
		{[]string{"compare", "lru", "fifo", out}, "[synthetic trace] A = lru against B = fifo"},
		{[]string{"compare", "lru", "opt", out, "--format", "json"}, `"oracle policy"`},
	} {
		args := c.args
		switch {
		case args[0] == "time" || args[0] == "plan":
			args = append(args, priced...)
		case args[0] == "leaderboard":
			args = append(args, "--model", "smollm2-135m")
		}
		if got := must(t, args...); !strings.Contains(got, c.title) {
			t.Errorf("%v: no %q in\n%s", args, c.title, got)
		}
	}
	lines, err := csv.NewReader(strings.NewReader(must(t, append([]string{"time", out, "--policy", "lru", "--capacity", "2x", "--format", "csv"}, priced...)...))).ReadAll()
	if at := slices.Index(lines[0], "labels"); err != nil || at < 0 || !strings.HasPrefix(lines[1][at], "synthetic trace, ") {
		t.Errorf("CSV %q, %v: expected a column of labels", lines, err)
	}
	board, step := filepath.Join(dir, "board"), filepath.Join(dir, "step.json")
	must(t, "leaderboard", out, "--out", board)
	must(t, append([]string{"time", out, "--policy", "lru", "--capacity", "2x", "--timeline", step}, priced...)...)
	for file, want := range map[string]string{filepath.Join(board, "curves-t.svg"): "<title>[synthetic trace] ", step: "[synthetic trace, layers stretched"} {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q: %v", file, want, err)
		}
	}
}

// unbroken returns a text on one line, with one blank between words.
func unbroken(text string) string { return strings.Join(strings.Fields(text), " ") }

// A plan never recommends a schedule that no system can run. It names everything that it leaves
// out.
func TestPlanOfAllSchedules(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", "../../datasets/bundled/smollm2_multi_news_8k.parquet", "--policy", "lru,opt", "--capacity", "8x", "--out", out, "--profile")
	args := []string{"plan", out, "--hardware", "h200", "--model", "deepseek-v3.2", "--layer-map", "stretch", "--topk", "2048", "--context", "32768", "--schedule", "all", "--slo", "25ms", "--steps", "2"}
	got := must(t, args...)
	head, rest, _ := strings.Cut(got, "#")
	if head = unbroken(head); !strings.HasPrefix(head, "[1 request, K scaled ×8, layers stretched, ") || !strings.HasSuffix(head, ": sparse Top-K attention") {
		t.Errorf("title %q", head)
	}
	ranked, oracles, found := strings.Cut(unbroken(rest), ": oracles know ")
	if !found || strings.Contains(ranked, "prefetch") || !strings.Contains(oracles, "- prefetch:accuracy=1 ") {
		t.Errorf("prefetch is ranked, or no oracle is listed:\n%s", got)
	}
	for _, want := range []string{"\ndropped: kvpr:order=row,", "misses the SLO: fastest TPOT ", "dropped: opt: sees the future: --policy opt lists it apart"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got = must(t, append(args, "--policy", "opt")...); !strings.Contains(unbroken(got), "oracle policy, fitted constant] deepseek-v3.2 on h200, 2 steps: oracles") || strings.Contains(got, "sees the future") {
		t.Errorf("opt is named, and no oracle:\n%s", got)
	}
}
