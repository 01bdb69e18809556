package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/random"
)

// runWith runs kvreplay with one more policy in the table, edited, which follows the rule of e.
func runWith(e policies.Entry, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	e.Name = "edited"
	code = cli.Main(policies.NewTable(append(all.Table(), e)...), args, &out, &errs)
	return code, out.String(), errs.String()
}

// After an edit of a policy, the same command gives new counts and states why it replays. A board
// refuses rows from before and after the edit.
func TestReplayAfterAnEdit(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "edited,opt", "--capacity", "1.5x,2x", "--tier", "dram=edited@4x", "--out", out, "--format", "csv"}
	code, before, stderr := runWith(lru.Entry, args...)
	if code != 0 || strings.Contains(stderr, "changed") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	old := filepath.Join(t.TempDir(), "before.csv")
	fatal.If(t, os.WriteFile(old, []byte(before), 0o666))
	code, after, stderr := runWith(fifo.Entry, args...)
	if want := "kvreplay: edited changed since the rows were written: replayed 6 cells again\n"; code != 0 || strings.Count(stderr, want) != 1 || !strings.Contains(stderr, "(0 cells were already in it)") {
		t.Errorf("exit code %d, expected %q: %s", code, want, stderr)
	}
	_, fresh, _ := runWith(fifo.Entry, append(args[:len(args)-4:len(args)-4], "--format", "csv")...)
	if after == before || after != fresh {
		t.Errorf("the edited policy has the rows\n%s\nexpected\n%s", after, fresh)
	}
	if code, _, stderr = runWith(fifo.Entry, args...); code != 0 || strings.Contains(stderr, "changed") || !strings.Contains(stderr, "(8 cells were already in it)") {
		t.Errorf("the edited policy again: exit code %d: %s", code, stderr)
	}
	if code, _, stderr = run("leaderboard", out); code != 0 {
		t.Errorf("the board of the folder: %s", stderr)
	}
	if code, _, stderr = run("leaderboard", out, old); code != 1 || !strings.Contains(stderr, "policy edited was edited between these replays") || !strings.Contains(stderr, "--where 'policy_fingerprint!=") {
		t.Errorf("the board of both: exit code %d: %s", code, stderr)
	}
}

// A run that is stopped after an edit leaves rows from before it. They are not ranked. The board is
// incomplete until the same command has finished.
func TestStoppedAfterAnEdit(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "edited,fifo,opt", "--capacity", "2x", "--out", out}
	runWith(lru.Entry, args...)
	before := rowsOf(t, out)
	if code, _, stderr := runWith(random.Entry, args...); code != 0 {
		t.Fatal(stderr)
	}
	if err := os.WriteFile(filepath.Join(out, "small.rows.jsonl"), before, 0o644); err != nil { // the state before the run finished
		t.Fatal(err)
	}
	code, stdout, stderr := run("leaderboard", out)
	if code != 3 || !strings.Contains(stderr, "small.parquet (1 of 3 cells)") || !strings.Contains(stdout, "fifo") || strings.Contains(stdout, "edited") {
		t.Errorf("exit code %d: %s%s", code, stderr, stdout)
	}
	for _, c := range [][]string{
		{"compare", "fifo", "edited", out}, {"leaderboard", out, "--where", "policy=edited"}, {"allocate", out, "--policy", "edited", "--memory", "2x"},
	} {
		fails(t, 3, "INCOMPLETE: 0 of 1 trace", c...)
	}
	if code, _, stderr := runWith(random.Entry, args...); code != 0 || !strings.Contains(stderr, "(3 cells were already in it)") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, stdout, stderr := run("leaderboard", out); code != 0 || !strings.Contains(stdout, "edited") {
		t.Errorf("exit code %d: %s%s", code, stderr, stdout)
	}
}

// A profile from before an edit is not priced after its cells were replayed without a profile.
func TestProfileFromBeforeAnEdit(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "edited,fifo", "--capacity", "2x,3x", "--out", out}
	profiled := append(args[:len(args):len(args)], "--profile")
	price := func(command, policy string) (int, string) {
		code, _, stderr := run(command, out, "--policy", policy, "--hardware", "h100", "--model", "llama-3-8b", "--layer-map", "nearest")
		return code, stderr
	}
	for _, a := range [][]string{profiled, args} {
		if code, _, stderr := runWith(lru.Entry, a...); code != 0 {
			t.Fatal(stderr)
		}
	}
	if code, stderr := price("plan", "edited"); code != 0 {
		t.Errorf("before the edit: exit code %d: %s", code, stderr)
	}
	runWith(random.Entry, append(args[:len(args):len(args)], "--capacity", "2x")...)
	if code, stderr := price("plan", "edited"); code != 1 || !strings.Contains(stderr, "is older than a change of a policy of edited @ 2x: repeat its replay command with --profile") {
		t.Errorf("after the edit: exit code %d: %s", code, stderr)
	}
	if code, stderr := price("plan", "fifo"); code != 0 {
		t.Errorf("another policy: exit code %d: %s", code, stderr)
	}
	runWith(random.Entry, profiled...)
	if code, stderr := price("plan", "edited"); code != 0 {
		t.Errorf("profiled again: exit code %d: %s", code, stderr)
	}
	out = t.TempDir()
	args = []string{"replay", path, "--policy", "fifo", "--capacity", "2x", "--tier", "dram=edited@4x", "--out", out}
	runWith(lru.Entry, append(args[:len(args):len(args)], "--profile")...)
	if code, stderr := price("plan", "fifo"); code != 0 {
		t.Errorf("a tier before the edit: exit code %d: %s", code, stderr)
	}
	runWith(random.Entry, args...)
	if code, stderr := price("plan", "fifo"); code != 1 || !strings.Contains(stderr, "is older than a change of a policy of fifo @ 2x") {
		t.Errorf("a tier after the edit: exit code %d: %s", code, stderr)
	}
}

// A folder with cells of an earlier version is replayed, and a message states why.
func TestReplayOfAnEarlierFolder(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru", "--capacity", "2x", "--out", out}
	must(t, args...)
	says(t, 1, "row schema 1, this program reads schema 2: replay the trace again", "leaderboard", asSchema1(t, out))
}

// asSchema1 returns the rows of a folder in the form of an earlier version.
func asSchema1(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	fatal.If(t, err)
	text = bytes.ReplaceAll(text, []byte(`"schema":2`), []byte(`"schema":1`))
	at := bytes.Index(text, []byte(`"policy_fingerprint"`))
	text = append(text[:at:at], text[at+bytes.IndexByte(text[at:], ',')+1:]...)
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	fatal.If(t, os.WriteFile(file, text, 0o666))
	return file
}
