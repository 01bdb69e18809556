package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const niah = "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"

// ownRows replays the smallest bundled trace and returns the file of its rows.
func ownRows(t *testing.T, format string) string {
	t.Helper()
	code, rows, stderr := run("replay", niah, "--policy", "lru", "--policy", "fifo", "--capacity", "1x,2x", "--format", format)
	if code != 0 {
		t.Fatal(stderr)
	}
	return writeRows(t, "rows."+format, rows)
}

func writeRows(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify(t *testing.T) {
	for _, format := range []string{"jsonl", "csv"} {
		code, out, errs := run("leaderboard", "verify", ownRows(t, format), "--traces", niah)
		if code != 0 || errs != "" || !strings.Contains(out, "all 4 rows: 4 hold, 0 differ, 0 not verifiable") {
			t.Errorf("%s: exit %d, stderr %q, stdout\n%s", format, code, errs, out)
		}
	}
	path := ownRows(t, "jsonl")
	code, out, _ := run("leaderboard", "verify", path, "--traces", filepath.Dir(niah), "--sample", "2", "--seed", "3", "--where", "policy=lru", "--format", "json")
	var report struct{ Rows, Holding, Seed int }
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil || report.Rows != 2 || report.Holding != 2 || report.Seed != 3 {
		t.Errorf("exit %d, %v, %+v:\n%s", code, err, report, out)
	}
}

// Rows that do not hold are shown, and the exit code says so.
func TestVerifyFindsAlteredRows(t *testing.T) {
	path := ownRows(t, "jsonl")
	rows, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	altered := writeRows(t, "altered.jsonl", strings.Replace(string(rows), `"capacity":"1x"`, `"capacity":"2x"`, 1))
	foreign := writeRows(t, "foreign.jsonl", strings.Replace(string(rows), `"policy":"fifo"`, `"policy":"mine"`, 1))
	elsewhere := filepath.Join(filepath.Dir(niah), "smollm2_multi_news_8k.parquet")
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{altered, "--traces", niah}, 1, "differs: capacity_entries 64, replayed 128", "1 of 4 rows do not hold"},
		{[]string{altered, "--traces", niah, "--allow-missing"}, 1, "differs: misses", "1 of 4 rows do not hold"},
		{[]string{foreign, "--traces", niah}, 1, `unknown policy "mine"`, "1 of 4 rows cannot be verified here (--allow-missing accepts that)"},
		{[]string{foreign, "--traces", niah, "--allow-missing"}, 0, "3 hold, 0 differ, 1 not verifiable", ""},
		{[]string{path, "--traces", elsewhere}, 1, "no trace has its digest", "4 of 4 rows cannot be verified"},
		{[]string{path}, 2, "", "--traces missing"},
		{[]string{path, "--traces", niah, "--sample", "none"}, 2, "", `--sample "none"`},
		{[]string{path, "--traces", niah, "--sample", "0"}, 2, "", `--sample "0"`},
		{[]string{path, "--traces", niah, "--format", "csv"}, 2, "", `--format "csv"`},
		{[]string{path, "--traces", "nowhere"}, 1, "", "nowhere"},
	} {
		code, out, errs := run(append([]string{"leaderboard", "verify"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.stdout) || !strings.Contains(errs, c.stderr) || (c.stderr == "") != (errs == "") {
			t.Errorf("%v: exit %d, want %d and %q, %q; stderr %q, stdout\n%s", c.args[1:], code, c.code, c.stdout, c.stderr, errs, out)
		}
	}
}
