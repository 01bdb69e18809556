package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// The demo needs no file, prints a board of the real trace in the program and fits a terminal.
func TestDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, stderr := run("demo")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for line := range strings.Lines(out) {
		if utf8.RuneCountInString(line) > 101 {
			t.Errorf("a line has more than 100 columns: %s", line)
		}
	}
	for _, want := range []string{"6 requests", "K = 256 entries", "\n 1 ", " echo ", " bound  opt ", "kvreplay policies new NAME"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo lacks %q:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
}

// Each command has a manual page with the date of $SOURCE_DATE_EPOCH.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	out := filepath.Join(t.TempDir(), "man")
	must(t, "man", "-o", out)
	if page := content(t, filepath.Join(out, "kvreplay-replay.1")); !strings.Contains(page, `"Jan 1970"`) || !strings.Contains(page, "--capacity") {
		t.Errorf("%.300s", page)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	wantRefused(t, 1, "expected seconds since 1970", "man", "-o", out)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	wantRefused(t, 1, "set $SOURCE_DATE_EPOCH", "man", "-o", out)
}

// Shells complete values: of enumerations, policies behind a comma, names of data files, the layers
// of the trace on the line, and arguments.
func TestCompletedValues(t *testing.T) {
	for line, want := range map[string]string{
		"leaderboard --format EMPTY":         "markdown\n",
		"replay --policy lru,EMPTY":          "lru,echo\n",
		"time --schedule EMPTY":              "sequential\n",
		"time --model EMPTY":                 "llama-3-8b\n",
		"time --engine EMPTY":                "graphs\n",
		"systems --systems ess,EMPTY":        "ess,quest-offload\n",
		"replay " + newsTrace + " --layers ": "25\n",
		"policies describe EMPTY":            "lookahead\n",
		"reproduce kvdrive --section EMPTY":  "bytes\nfig-20\n",
		"reproduce --section bytes,EMPTY":    "bytes,kvdrive/fig-20\n",
		"hardware show EMPTY":                "pcie5-x16\n",
		"replay missing --layers EMPTY":      ":4\n",
	} {
		args := strings.Fields("__complete " + line)
		if strings.HasSuffix(line, " ") {
			args = append(args, "")
		}
		last := len(args) - 1
		args[last] = strings.TrimSuffix(args[last], "EMPTY")
		if code, stdout, stderr := run(args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, %q, %s; expected %q", line, code, stdout, stderr, want)
		}
	}
}
