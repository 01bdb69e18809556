package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// coldRows are the example's rows, those that hold text replayed cold.
func coldRows(t *testing.T, text string) string {
	t.Helper()
	rows, err := os.ReadFile(syntheticRows)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(rows), "\n")
	for i := range lines {
		if strings.Contains(lines[i], text) {
			lines[i] = strings.Replace(lines[i], `"warmup":"lru:32"`, `"warmup":"cold"`, 1)
		}
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Cold rows and warmed ones make two boards, whether or not the trace has windows; where they
// cannot, the error names the warm-ups.
func TestLeaderboardColdAndWarmed(t *testing.T) {
	code, out, errs := runBoard(coldRows(t, `"trace":"synthetic-qa.parquet"`))
	if code != exitOK || !strings.Contains(out, "=== Warmed caches ===") || !strings.Contains(out, "=== Cold starts ===") {
		t.Errorf("exit %d, stderr %q:\n%s", code, errs, out)
	}
	code, out, errs = runBoard(coldRows(t, `"policy":"s3fifo"`))
	for _, want := range []string{"have both, warmup=cold in 40 of 270; cold starts: leaderboard: no rows of policy opt", "choose with --where warmup=cold or --where warmup!=cold"} {
		if code != exitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, out, errs, want)
		}
	}
}
