package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
)

const (
	longbenchRows = "../../datasets/longbench/testdata/multi_news.jsonl.gz"
	longbenchV2   = "../../datasets/longbench/testdata/made_v2.json"
)

// made runs a command that must succeed.
func made(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := run(args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	return stdout, stderr
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMakeLongbench(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "news.jsonl")
	args := []string{"datasets", "make", "longbench", longbenchRows, "-o", path, "--length", "1000", "--samples", "2", "--seed", "0"}
	stdout, stderr := made(t, args...)
	if stdout != "" || !strings.Contains(stderr, "2 prompts, counted by cl100k_base") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	rows, m := promptstest.Read(t, path)
	if len(rows) != 2 || rows[0].Task != "multi_news" {
		t.Fatalf("%v", rows)
	}
	if got := strings.Join(m.Command, " "); got != "kvreplay datasets make longbench "+longbenchRows+" --length=1000 --samples=2 --seed=0" {
		t.Errorf("command of the manifest: %s", got)
	}
	again := filepath.Join(folder, "again.jsonl")
	args[5] = again
	made(t, args...)
	if a, b := content(t, path), content(t, again); a != b {
		t.Error("the same command made other prompts")
	}
}

func TestMakeLongbenchV2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v2.jsonl")
	_, stderr := made(t, "datasets", "make", "longbench-v2", longbenchV2, "-o", path, "--context", "short")
	rows, _ := promptstest.Read(t, path)
	if len(rows) != 2 || !strings.Contains(stderr, "2 prompts") {
		t.Errorf("%v, stderr %q", rows, stderr)
	}
}

// What is refused leaves nothing behind, and says why.
func TestMakeLongbenchRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"output missing":               {"longbench", longbenchRows},
		"source missing":               {"longbench", "-o", "OUT"},
		"unknown set":                  {"longbench", longbenchRows, "-o", "OUT", "--task", "multinew"},
		"not in the sources":           {"longbench", longbenchRows, "-o", "OUT", "--task", "lcc"},
		"too short for multi_news":     {"longbench", longbenchRows, "-o", "OUT", "--length", "12"},
		"--seed draws rows":            {"longbench", longbenchRows, "-o", "OUT", "--seed", "1"},
		"--length 0":                   {"longbench", longbenchRows, "-o", "OUT", "--length", "0"},
		"--samples -1":                 {"longbench", longbenchRows, "-o", "OUT", "--samples", "-1"},
		"make longbench-v2`":           {"longbench", longbenchV2, "-o", "OUT"},
		"make longbench`":              {"longbench-v2", longbenchRows, "-o", "OUT"},
		"expected one source":          {"longbench-v2", longbenchV2, longbenchV2, "-o", "OUT"},
		"did you mean easy":            {"longbench-v2", longbenchV2, "-o", "OUT", "--difficulty", "esy"},
		"no question of the source is": {"longbench-v2", longbenchV2, "-o", "OUT", "--context", "long"},
		"not built in":                 {"longbench", longbenchRows, "-o", "OUT", "--tokenizer", "none_base"},
		"no such file or directory":    {"longbench", "no.jsonl", "-o", "OUT"},
		"read LongBench v2: stat no.":  {"longbench-v2", "no.json", "-o", "OUT"},
	} {
		folder := t.TempDir()
		for i := range args {
			args[i] = strings.Replace(args[i], "OUT", filepath.Join(folder, "out.jsonl"), 1)
		}
		code, _, stderr := run(append([]string{"datasets", "make"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q, want %q", args, code, stderr, want)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", args, left, err)
		}
	}
}
