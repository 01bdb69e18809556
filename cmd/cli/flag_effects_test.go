package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Flags that change nothing in the company that they are given in are refused, not taken in
// silence.
func TestFlagsWithoutEffect(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	kvreplay(t, 0, "replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--per", "stream", "--profile", "--out", out)
	price := []string{"hardware", "price", "--hardware", "l40s", "--entry-bytes", "4", "--blocks", "4"}
	priced := []string{"time", out, "--policy", "lru", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest"}
	for _, c := range []struct {
		command []string
		flags   string
		code    int
		want    string
	}{
		{price, "--merge", 2, "--merge goes with --runs"},
		{price, "--gpudirect", 2, "--gpudirect goes with --from-ssd"},
		{[]string{"hardware", "fit", points}, "--path kernel", 2, "--path goes with --link"},
		{[]string{"hardware", "fit", points}, "--source mine", 2, "--source goes with --format yaml"},
		{[]string{"hardware", "extents", path}, "--format json --ssd-depth 8", 2, "--ssd-depth is of times, which --format json, of counts, has not"},
		{[]string{"hardware", "extents", path}, "--format json --hardware h100", 2, "--hardware is of times"},
		{priced, "--ssd-depth 8", 2, "--ssd-depth is of an SSD, and the profile reads from none"},
		{[]string{"plan", out, "--model", "smollm2-135m", "--layer-map", "nearest"}, "--ssd-depth 8", 2, "--ssd-depth is of an SSD"},
		{priced, "--schedule all,gpu", 2, "--schedule all names every one: leave the others out"},
		{priced, "--hardware h100,all", 2, "--hardware all names every one"},
		{[]string{"leaderboard", out}, "--format csv --per-trace", 2, "--per-trace adds tables, --format csv has none"},
		{[]string{"allocate", out, "--policy", "lru", "--memory", "1.5x"}, "--cost peak", 1, "the cost peak is of windows"},
		{[]string{"datasets", "make", "offline", "-o", filepath.Join(out, "p.jsonl")}, "--task lcc_go --text x", 2, "--text is for the tasks that end in _text"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task vt --squad x", 2, "--squad is for the task qa_1"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task qa_1 --hotpotqa x", 2, "--hotpotqa is for the task qa_2"},
		{[]string{"datasets", "make", "ruler", "-o", filepath.Join(out, "p.jsonl")}, "--task vt,qa_1 --essays x", 2, "--essays is for the task niah_single_2 or niah_single_3 or niah_multikey_1 or niah_multivalue or niah_multiquery, which"},
		{[]string{"replay", path, "--policy", "window:1,none"}, "--capacity 2x", 2, "--capacity is of policies that have one, and window:1 has none"},
		{[]string{"replay", path, "--profile", "--out", filepath.Join(out, "r")}, "--checkpoint 1s", 2, "--checkpoint and --profile do not combine"},
		{[]string{"replay", path, "--referee", "--out", filepath.Join(out, "r")}, "--checkpoint 1s", 2, "--checkpoint and --referee do not combine"},
		{[]string{"leaderboard", "nowhere"}, "--out " + path, 1, "is a file, expected a folder or a new name"},
	} {
		args := append(append([]string{}, c.command...), strings.Fields(c.flags)...)
		if code, stdout, stderr := run(args...); code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d, %q, expected %d and %q", args, code, stderr, c.code, c.want)
		}
	}
}

// A dash is no stdin, and is not looked for as a file unless there is one of that name.
func TestDashIsNoInput(t *testing.T) {
	path := smallTrace(t, small)
	t.Chdir(t.TempDir())
	for _, command := range []string{"replay -", "validate -", "leaderboard -", "compare lru opt -", "import - -o t.parquet", "hardware fit -", "time -"} {
		if code, _, stderr := run(strings.Fields(command)...); code != 2 || !strings.Contains(stderr, "- is not stdin: name a file") {
			t.Errorf("%s: exit %d, %s", command, code, stderr)
		}
	}
	if code, _, stderr := run("policies", "describe", "-"); code != 2 || !strings.Contains(stderr, `unknown policy "-"`) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if err := os.Link(path, "-"); err != nil {
		t.Fatal(err)
	}
	kvreplay(t, 0, "validate", "-")
}

// Files that are named by a flag and are empty or not there are no errors of the command line,
// and say what was expected; what is no file is one.
func TestFilesOfFlags(t *testing.T) {
	path, dir := smallTrace(t, small), t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.WriteFile("empty", nil, 0o600), os.WriteFile("card", nil, 0o600), os.WriteFile("rows.jsonl.gz", []byte("\x1f\x8b\x08"), 0o600)); err != nil {
		t.Fatal(err)
	}
	kvreplay(t, 0, "replay", path, "--policy", "lru", "--capacity", "1x", "--profile", "--out", "results")
	profile, err := filepath.Glob("results/*.parquet")
	if err != nil || len(profile) != 1 {
		t.Fatal(profile, err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"replay TRACE --clusters empty", 1, "clusters empty: the file is empty; `kvreplay clusters` writes one"},
		{"replay TRACE --clusters nowhere", 1, "expected lists, or a file of clusters"},
		{"replay TRACE --clusters lists,page=0", 2, "expected a page of 1 to"},
		{"replay TRACE --allocation empty", 1, "read plan empty: it is empty; `kvreplay allocate -o` writes plans"},
		{"replay TRACE --allocation PROFILE", 1, "expected a plan, as `kvreplay allocate -o` writes it"},
		{"datasets make synthetic --dials PROFILE -o x.parquet", 1, "expected dials, as `kvreplay datasets fit -o` writes them"},
		{"replay PROFILE", 1, "is a profile of a replay, expected a trace; `kvreplay time` and `kvreplay plan` read profiles"},
		{"datasets fit PROFILE", 1, "is a profile of a replay, expected a trace"},
		{"leaderboard rows.jsonl.gz", 1, "rows.jsonl.gz: is gzip'ed, expected rows as JSON lines or CSV: gunzip it first"},
		{"datasets card TRACE nowhere.parquet -o CARD.md", 1, "nowhere.parquet"},
		{"datasets card TRACE -o CARD.md", 1, "card: card is a file, expected a folder or a new name"},
		{"completion bash extra", 2, `completion bash: unexpected argument "extra"`},
	} {
		code, stdout, stderr := run(strings.Fields(strings.NewReplacer("TRACE", path, "PROFILE", profile[0]).Replace(c.args))...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %q, expected %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
