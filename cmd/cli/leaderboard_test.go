package cli

import (
	"bytes"
	"github.com/kvreplay/kvreplay/policies/all"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"table": "Exact policies", "markdown": "# Leaderboard", "csv": "scope,kind,", "json": `"board_version": 1`,
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
	for _, name := range []string{"leaderboard.md", "leaderboard.csv", "leaderboard.json", "curves-synthetic-code.svg", "curves-synthetic-qa.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(table, "on synthetic-qa.parquet") {
		t.Error("--per-trace shows no trace")
	}
}

func TestLeaderboardErrors(t *testing.T) {
	rows, err := filepath.Abs(syntheticRows)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitFailed, "no folder results here, and no rows named: make it with `kvreplay replay TRACE... --out results` or `make leaderboard`"},
		{rows + " --format xml", exitUsage, `--format "xml": expected table, markdown, csv or json`},
		{rows + " --where polcy=lru", exitUsage, `unknown field "polcy"`},
		{rows + " --where policy=none", exitFailed, "the rows have policy: admit, fifo, lru"},
		{rows + " --where policy=lru", exitFailed, "no rows of policy opt"},
		{"nowhere.jsonl", exitFailed, "nowhere.jsonl: no such file"},
	} {
		code, out, errs := runBoard(strings.Fields(c.args)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
