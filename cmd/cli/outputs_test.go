package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// contents are the files of a folder, by name; of what is no regular file, its mode.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		text := []byte(e.Type().String())
		if e.Type().IsRegular() {
			if text, err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		found[e.Name()] = string(text)
	}
	return found
}

// No command writes its output in the place of an input, or of what is no regular file:
// it says so before the work, exits with 2 and leaves all files as they are.
func TestOutputsDestroyNothing(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	copied := func(from, to string) {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(at(to), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied(smallTrace(t, small), "t.parquet")
	copied("../../datasets/corpus/selectors_qa_text.retroinfer.parquet", "ranked.parquet")
	copied("../../trace/importer/testdata/news.jsonl.gz", "news.jsonl.gz")
	boardNames := []string{"leaderboard.md", "leaderboard.csv", "leaderboard.json", "curves-t.svg"}
	kept := t.TempDir()
	if code, _, stderr := run("replay", at("t.parquet"), "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--per", "stream", "--out", kept, "--profile"); code != 0 {
		t.Fatal(stderr)
	}
	for pattern, name := range map[string]string{"*.jsonl": "rows.jsonl", "*.parquet": "p.parquet"} {
		found, _ := filepath.Glob(filepath.Join(kept, pattern))
		copied(found[0], name)
	}
	if code, text, stderr := run("replay", at("t.parquet"), "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--format", "csv"); code != 0 {
		t.Fatal(stderr)
	} else {
		for _, name := range boardNames {
			if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{"e.txt": "Some words.\n", "multi_news.jsonl": "{}\n", "v2.json": "[]\n", "d.yaml": "requests: 2\n"} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	priced := []string{"time", at("p.parquet"), "--policy", "lru", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest"}
	for _, c := range []struct {
		args  []string // without the output
		flag  string   // that names it
		input string
	}{
		{[]string{"derive", at("t.parquet"), "--topk", "4"}, "-o", "t.parquet"},
		{[]string{"import", at("news.jsonl.gz"), "--topk", "256"}, "-o", "news.jsonl.gz"},
		{[]string{"clusters", at("ranked.parquet")}, "-o", "ranked.parquet"},
		{[]string{"allocate", at("rows.jsonl"), "--policy", "lru", "--memory", "1x"}, "-o", "rows.jsonl"},
		{[]string{"allocate", dir, "--policy", "lru", "--memory", "1x"}, "-o", "rows.jsonl"},
		{priced, "--timeline", "p.parquet"},
		{[]string{"datasets", "fit", at("t.parquet")}, "-o", "t.parquet"},
		{[]string{"datasets", "card", at("t.parquet")}, "-o", "t.parquet"},
		{[]string{"datasets", "make", "ruler", "--task", "niah_single_2", "--samples", "1", "--essays", at("e.txt")}, "-o", "e.txt"},
		{[]string{"datasets", "make", "ruler", "--task", "niah_single_2", "--samples", "1", "--essays", dir}, "-o", "e.txt"},
		{[]string{"datasets", "make", "longbench", at("multi_news.jsonl")}, "-o", "multi_news.jsonl"},
		{[]string{"datasets", "make", "longbench", dir}, "-o", "multi_news.jsonl"},
		{[]string{"datasets", "make", "longbench-v2", at("v2.json")}, "-o", "v2.json"},
		{[]string{"datasets", "make", "offline", "--task", "qa_text", "--text", at("e.txt")}, "-o", "e.txt"},
		{[]string{"datasets", "make", "synthetic", "--dials", at("d.yaml")}, "-o", "d.yaml"},
		{[]string{"datasets", "extract", "smollm2_niah_1k_sglang"}, "-o", ""},
	} {
		for _, target := range []string{c.input, "pipe"} {
			if target == "" {
				continue
			}
			args := append(append([]string{}, c.args...), c.flag, at(target))
			want := map[bool]string{true: "is a pipe", false: "also an input"}[target == "pipe"]
			code, stdout, stderr := run(args...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, at(target)) {
				t.Errorf("%v: exit %d, stdout %q, %s", args, code, stdout, stderr)
			}
		}
	}
	for _, name := range boardNames {
		if code, _, stderr := run("leaderboard", at(name), "--out", dir); code != 2 || !strings.Contains(stderr, name+" is also an input") {
			t.Errorf("leaderboard of %s: exit %d, %s", name, code, stderr)
		}
	}
	after := contents(t, dir)
	for name, text := range after {
		if before[name] != text {
			t.Errorf("%s was written or changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files were there, %d are", len(before), len(after))
	}
}

// An output that cannot be written is named, and the temporary file is not.
func TestOutputErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "t.parquet")
	for _, args := range [][]string{
		{"derive", smallTrace(t, small), "-o", missing},
		{"datasets", "fit", smallTrace(t, small), "-o", missing},
		{"datasets", "extract", "smollm2_niah_1k_sglang", "-o", missing},
	} {
		if code, _, stderr := run(args...); code != 1 || !strings.Contains(stderr, "cannot write "+missing+": folder ") || bytes.Contains([]byte(stderr), []byte("/.")) {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}
