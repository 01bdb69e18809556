package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const niah = "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"

// ownRows replays the smallest bundled trace and returns the file of its rows.
func ownRows(t *testing.T, format string) string {
	t.Helper()
	rows := must(t, "replay", niah, "--policy", "lru", "--policy", "fifo", "--capacity", "1x,2x", "--format", format)
	return writeRows(t, "rows."+format, rows)
}

func writeRows(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestVerify(t *testing.T) {
	for _, format := range []string{"jsonl", "csv"} {
		code, out, errs := run("leaderboard", "verify", ownRows(t, format), "--traces", niah)
		if code != 0 || errs != "" || !strings.Contains(out, "all 4 rows: 4 hold, 0 differ, 0 unverifiable") {
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

// Rows that do not hold are shown, and the exit code reports them.
func TestVerifyFindsAlteredRows(t *testing.T) {
	path := ownRows(t, "jsonl")
	rows, err := os.ReadFile(path)
	fatal.If(t, err)
	altered := writeRows(t, "altered.jsonl", strings.Replace(string(rows), `"capacity":"1x"`, `"capacity":"2x"`, 1))
	foreign := writeRows(t, "foreign.jsonl", strings.Replace(string(rows), `"policy":"fifo"`, `"policy":"mine"`, 1))
	elsewhere := filepath.Join(filepath.Dir(niah), "smollm2_multi_news_8k.parquet")
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{altered, "--traces", niah}, 1, "differs: capacity_entries 64, replayed 128", "1 of 4 rows differ from their replay"},
		{[]string{altered, "--traces", niah, "--allow-missing"}, 1, "differs: misses", "1 of 4 rows differ from their replay"},
		{[]string{foreign, "--traces", niah}, 1, `unknown policy "mine"`, "1 of 4 rows cannot be verified here (--allow-missing accepts that)"},
		{[]string{foreign, "--traces", niah, "--allow-missing"}, 0, "3 hold, 0 differ, 1 unverifiable", ""},
		{[]string{path, "--traces", elsewhere}, 1, "no trace of --traces has the digest", "4 of 4 rows cannot be verified"},
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

// Without a seed each run draws a new sample and prints its seed, so that it can be repeated.
func TestVerifySeed(t *testing.T) {
	path := ownRows(t, "jsonl")
	verify := func(more ...string) (out, seed string) {
		t.Helper()
		code, out, errs := run(append([]string{"leaderboard", "verify", path, "--traces", niah, "--sample", "2"}, more...)...)
		drawn := regexp.MustCompile(`2 of 4 rows, drawn with seed (\d+), and 0 more of the same cells: 2 hold`).FindStringSubmatch(out)
		if code != 0 || drawn == nil {
			t.Fatalf("exit %d, stderr %q, stdout\n%s", code, errs, out)
		}
		return out, drawn[1]
	}
	first, seed := verify()
	if _, other := verify(); other == seed {
		t.Errorf("two runs drew with seed %s", seed)
	}
	if again, _ := verify("--seed", seed); again != first {
		t.Errorf("seed %s gave\n%s, again\n%s", seed, first, again)
	}
}

// Missing requests are named, and the exit code reports them. A filter does not count as missing
// rows.
func TestVerifyFindsMissingRows(t *testing.T) {
	code, rows, errs := run("replay", niah, "--policy", "lru", "--capacity", "2x", "--per", "layer", "--format", "jsonl")
	if code != 0 {
		t.Fatal(errs)
	}
	lines := strings.SplitAfter(rows, "\n")
	path := writeRows(t, "rows.jsonl", strings.Join(lines[1:], ""))
	code, out, errs := run("leaderboard", "verify", path, "--traces", niah)
	want := fmt.Sprintf("incomplete: %s: rows lack 1 of %d parts: layer 0, in lru at 2x", filepath.Base(niah), len(lines)-1)
	if code != 1 || !strings.Contains(out, want) || !strings.Contains(errs, "1 cells lack rows") {
		t.Errorf("exit %d, stderr %q, want %q, stdout\n%s", code, errs, want, out)
	}
	whole := writeRows(t, "whole.jsonl", rows)
	if code, out, errs := run("leaderboard", "verify", whole, "--traces", niah, "--where", "layer_id!=0"); code != 0 || strings.Contains(out, "incomplete") {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, errs, out)
	}
}

// Rows with a plan are verified with it. Without it the error names the missing plan.
func TestVerifyPlan(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	profile := filepath.Join(t.TempDir(), "profile")
	for _, args := range [][]string{
		{"replay", niah, "--policy", "lru", "--capacity", "sweep:16", "--per", "stream", "--out", profile},
		{"allocate", profile, "--memory", "2x", "--method", "2d-greedy", "-o", plan},
	} {
		if code, _, errs := run(args...); code != 0 {
			t.Fatal(errs)
		}
	}
	code, rows, errs := run("replay", niah, "--policy", "lru", "--allocation", plan, "--format", "jsonl")
	if code != 0 {
		t.Fatal(errs)
	}
	path := writeRows(t, "rows.jsonl", rows)
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"--allocation", plan}, 0, "1 hold, 0 differ"},
		{nil, 1, "row 1 unverifiable: it needs the plan sha256:"},
		{[]string{"--allow-missing"}, 0, "give it with --allocation PLAN"},
		{[]string{"--allocation", "nowhere.yaml"}, 1, ""},
	} {
		code, out, errs := run(append([]string{"leaderboard", "verify", path, "--traces", niah}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.stdout) {
			t.Errorf("%v: exit %d, want %d and %q; stderr %q, stdout\n%s", c.args, code, c.code, c.stdout, errs, out)
		}
	}
}
