package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/policies/all"
)

const syntheticRows = "../../metrics/testdata/rows.jsonl"

// runBoard runs `kvreplay leaderboard` and returns exit code, stdout and stderr.
func runBoard(args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := Main(all.Table(), append([]string{"leaderboard"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestLeaderboardFormats(t *testing.T) {
	for format, want := range map[string]string{
		"table": "Exact policies", "markdown": "# Leaderboard", "csv": "scope,kind,", "json": `"board_version": 2`, "html": "<!DOCTYPE html>",
	} {
		code, out, errs := runBoard(syntheticRows, "--format", format)
		if code != exitOK || !strings.Contains(out, want) || errs != "" {
			t.Errorf("%s: exit %d, stderr %q, stdout %.200q; want %q", format, code, errs, out, want)
		}
	}
}

func TestLeaderboardOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "board")
	code, table, errs := runBoard(syntheticRows, "--out", dir, "--per-trace")
	if code != exitOK || !strings.Contains(errs, "2 curves") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"leaderboard.md", "leaderboard.html", "leaderboard.csv", "leaderboard.json", "ranking.svg", "ranking-dark.svg", "curves-synthetic-code.svg", "curves-synthetic-qa.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(table, "on synthetic-qa.parquet") {
		t.Error("--per-trace shows no trace")
	}
}

// TestLeaderboardOutKeepsBothStarts checks that cold and warmed rows of a trace have separate
// files.
func TestLeaderboardOutKeepsBothStarts(t *testing.T) {
	rows, err := os.ReadFile(syntheticRows)
	fatal.If(t, err)
	cold := filepath.Join(t.TempDir(), "cold.jsonl")
	fatal.If(t, os.WriteFile(cold, bytes.ReplaceAll(rows, []byte(`"warmup":"lru:32"`), []byte(`"warmup":"cold"`)), 0o644))
	dir := t.TempDir()
	if code, _, errs := runBoard(syntheticRows, cold, "--out", dir); code != exitOK || !strings.Contains(errs, "4 curves") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for name, want := range map[string]string{"curves-synthetic-qa.svg": "warm-up lru:32", "curves-synthetic-qa-cold.svg": "warm-up cold"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q: %v", name, want, err)
		}
	}
}

// Ranking by time, with another model. The bytes are those of the rows, times follow misses, and
// assumptions appear below the table. The JSON has the same times.
func TestLeaderboardByTime(t *testing.T) {
	args := []string{syntheticRows, "--by", "time", "--model", "llama-3.1-8b", "--hardware", "rtx4090", "--batch", "2", "--context", "4096", "--notes"}
	code, out, errs := runBoard(args...)
	if code != exitOK {
		t.Fatal(errs)
	}
	unbroken := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"modelled time per output token", "llama-3.1-8b on rtx4090, batch 2, sequential", "mean misses of the recorded", "context of 4096 tokens", " 1 admit ¹ "} {
		if !strings.Contains(unbroken, want) {
			t.Errorf("the board lacks %q:\n%s", want, out)
		}
	}
	if _, again, _ := runBoard(args...); again != out {
		t.Error("the same rows give another board")
	}
	_, text, _ := runBoard(append(args, "--format", "json")...)
	var b board.Board
	fatal.If(t, json.Unmarshal([]byte(text), &b))
	ranked := b.Tables[0].Ranked
	for i := 1; i < len(ranked); i++ {
		if *ranked[i].Pooled.TPOT <= *ranked[i-1].Pooled.TPOT || ranked[i].Pooled.Misses <= ranked[i-1].Pooled.Misses {
			t.Errorf("%s takes %g s with %d misses after %g s with %d", ranked[i].Policy, *ranked[i].Pooled.TPOT, ranked[i].Pooled.Misses, *ranked[i-1].Pooled.TPOT, ranked[i-1].Pooled.Misses)
		}
	}
}

func TestLeaderboardErrors(t *testing.T) {
	rows, err := filepath.Abs(syntheticRows)
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitFailed, "no ROWS named, and no folder results here: name files of rows, or make the folder with `kvreplay replay TRACE... --out results`"},
		{rows + " --format xml", exitUsage, `--format "xml": expected table, markdown, latex, csv, json or html`},
		{rows + " --by hits", exitUsage, `--by "hits": expected misses or time`},
		{rows + " --by time", exitFailed, "nothing to rank by time: no modelled TPOT: synthetic-code.parquet, synthetic-qa.parquet: the trace names no model: name a shape with --model"},
		{rows + " --hardware h101", exitUsage, "known: a10"},
		{rows + " --model gpt", exitUsage, "known: bloom"},
		{rows + " --schedule gpu", exitUsage, "--schedule gpu moves no misses"},
		{rows + " --schedule tbo --batch 1", exitUsage, "divides the batch into 2 parts"},
		{rows + " --selection foo", exitUsage, `unknown selection "foo"; known: auto`},
		{rows + " --selection mean:tokens=0", exitUsage, "selection mean:tokens=0: tokens=0 is not between 1"},
		{rows + " --selection mean:tokns=4", exitUsage, `unknown option "tokns", did you mean tokens?`},
		{rows + " --model llama-3.1-8b --selection indexer", exitUsage, "model llama-3.1-8b has no indexer"},
		{rows + " --batch 0", exitUsage, "batch 0, expected 1 to"},
		{rows + " --model llama-3.1-8b --context 10 --by time", exitFailed, "context 10, expected at least K, 64 tokens"},
		{rows + " --context -1", exitUsage, "--context -1: expected at least 1"},
		{rows + " --model llama-2-70b --hardware rtx4090 --by time", exitFailed, "does not fit"},
		{rows + " --where polcy=lru", exitUsage, `unknown field "polcy"`},
		{rows + " --where policy=none", exitFailed, "the rows have policy: admit, fifo, lru"},
		{rows + " --where policy=lru", exitFailed, "--where excludes the 50 rows of policy opt"},
		{"nowhere.jsonl", exitFailed, "nowhere.jsonl: no such file"},
	} {
		code, out, errs := runBoard(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// coldRows returns the example's rows that contain text, replayed cold.
func coldRows(t *testing.T, text string) string {
	t.Helper()
	rows, err := os.ReadFile(syntheticRows)
	fatal.If(t, err)
	lines := strings.SplitAfter(string(rows), "\n")
	for i := range lines {
		if strings.Contains(lines[i], text) {
			lines[i] = strings.Replace(lines[i], `"warmup":"lru:32"`, `"warmup":"cold"`, 1)
		}
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	fatal.If(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	return path
}

// Cold and warmed rows make two boards, for traces with and without windows. If they cannot, the
// error names the warm-ups.
func TestLeaderboardColdAndWarmed(t *testing.T) {
	code, out, errs := runBoard(coldRows(t, `"trace":"synthetic-qa.parquet"`))
	if code != exitOK || !strings.Contains(out, "=== Warmed caches ===") || !strings.Contains(out, "=== Cold starts ===") {
		t.Errorf("exit %d, stderr %q:\n%s", code, errs, out)
	}
	code, out, errs = runBoard(coldRows(t, `"policy":"s3fifo"`))
	for _, want := range []string{"cold starts (40 of 270 rows) have a board of their own, and one of the two boards fails: cold starts: no rows of policy opt", "choose with --where warmup=cold or --where warmup!=cold"} {
		if code != exitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, out, errs, want)
		}
	}
}
