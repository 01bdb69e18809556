package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

const interopDir = "../../scripts/interop"

// python runs a script in the environment of DuckDB and pandas and returns its output.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	interpreter := tracetest.Python(t, tracetest.Interop("../.."))
	cmd := exec.CommandContext(t.Context(), interpreter, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python %v: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// DuckDB counts every cell of a folder once after runs that repeat some. DuckDB, pandas and pyarrow
// read all fields of all rows in rows.parquet.
func TestPythonReadsRows(t *testing.T) {
	traces, results, board := []string{smallTrace(t, small), "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"}, t.TempDir(), t.TempDir()
	for _, policies := range []string{"lru,opt", "lru,opt,fifo,window:2", "fifo"} {
		kvreplay(t, 0, append([]string{"replay", "--policy", policies, "--capacity", "0.5x,2x", "--out", results}, traces...)...)
	}
	const cells = 2 * (3*2 + 1 + 2) // traces × (policies × capacities, the window, LRU and OPT at its peak)
	count := python(t, "-c", "import duckdb, sys; print(duckdb.sql(f\"select count(*), count(distinct (trace, policy, capacity)) from '{sys.argv[1]}/*.jsonl'\").fetchall())", results)
	if got := strings.TrimSpace(string(count)); got != "[(18, 18)]" {
		t.Errorf("DuckDB counts %s cells, expected %d", got, cells)
	}
	kvreplay(t, 0, "leaderboard", results, "--out", board)
	var seen struct {
		PyArrow, Pandas, DuckDB []map[string]any
	}
	fatal.If(t, json.Unmarshal(python(t, filepath.Join(interopDir, "rows.py"), filepath.Join(board, "rows.parquet")), &seen))
	rows, err := result.ReadRows(results)
	if err != nil || len(rows) != cells {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var text bytes.Buffer
	fatal.If(t, result.WriteJSONL(&text, result.MergeRows(rows, nil)))
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for library, got := range map[string][]map[string]any{"pyarrow": seen.PyArrow, "pandas": seen.Pandas, "DuckDB": seen.DuckDB} {
		if len(got) != len(lines) {
			t.Errorf("%s sees %d rows, expected %d", library, len(got), len(lines))
			continue
		}
		for i, line := range lines {
			var want map[string]any
			fatal.If(t, json.Unmarshal([]byte(line), &want))
			if a, b := mustJSON(t, got[i]), mustJSON(t, want); a != b {
				t.Fatalf("%s sees row %d as\n%s\nexpected\n%s", library, i, a, b)
			}
		}
	}
}

// mustJSON returns JSON with sorted keys.
func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	fatal.If(t, err)
	return string(text)
}

// The Python example of ROWS.md runs on a results folder and a board.
func TestRowsExample(t *testing.T) {
	text, err := os.ReadFile("../../metrics/ROWS.md")
	fatal.If(t, err)
	_, rest, _ := strings.Cut(string(text), "```python\n")
	code, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("ROWS.md has no Python example")
	}
	script, results, board := filepath.Join(t.TempDir(), "example.py"), t.TempDir(), t.TempDir()
	fatal.If(t, os.WriteFile(script, []byte(code), 0o600))
	kvreplay(t, 0, "replay", smallTrace(t, small), "--policy", "lru,opt", "--capacity", "2x", "--out", results)
	kvreplay(t, 0, "leaderboard", results, "--out", board)
	if out := string(python(t, script, results, board)); strings.Count(out, "lru") != 2 || strings.Count(out, "2x") != 3 {
		t.Errorf("the example prints\n%s", out)
	}
}
