package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a command does not take is an error of the command line that names the command.
func TestUnexpectedArguments(t *testing.T) {
	for line, want := range map[string]string{
		"version x":               "kvreplay: version: unexpected argument \"x\"; usage: kvreplay version [flags]",
		"datasets list x":         "kvreplay: datasets list: unexpected argument",
		"datasets make offline x": "kvreplay: datasets make offline: unexpected argument",
		"hardware list x":         "kvreplay: hardware list: unexpected argument",
		"hardware points x":       "kvreplay: hardware points: unexpected argument",
		"hardware price x":        "kvreplay: hardware price: unexpected argument",
		"replya":                  "unknown command \"replya\", did you mean replay?; `kvreplay --help` lists them",
		"help replya":             "unknown command \"replya\", did you mean replay?; `kvreplay --help` lists them",
		"help hardware nope":      "`kvreplay hardware --help` lists them",
		"hardware nope":           "unknown command \"nope\"; `kvreplay hardware --help` lists them",
		"datasets x":              "`kvreplay datasets --help` lists them",
		"datasets make x":         "`kvreplay datasets make --help` lists them",
		"policies x":              "`kvreplay policies --help` lists them",
		"completion bas":          "unknown command \"bas\", did you mean bash?; `kvreplay completion --help` lists them",
		"replay EMPTY":            "kvreplay: replay: an argument is empty, as an unset variable leaves it; usage: kvreplay replay",
		"leaderboard EMPTY":       "leaderboard: an argument is empty",
		"replay t --out EMPTY":    "kvreplay: --out is empty, as an unset variable leaves it: give a value, or leave the flag out",
		"allocate t -o EMPTY":     "--out is empty",
		"time t --timeline EMPTY": "--timeline is empty",
		"replay t --layers 0,":    "--layers has an empty item: [\"0\" \"\"]",
		"replay --polcy lru":      "unknown flag --polcy, did you mean --policy?; `kvreplay replay --help` lists them",
	} {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.TrimPrefix(args[i], "EMPTY")
		}
		code, stdout, stderr := run(args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit 2 and %q", line, code, stdout, stderr, want)
		}
	}
}

// What a shell asks of `kvreplay completion` scripts: the word under the cursor may be empty.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"__complete EMPTY":               "replay\tReplay traces",
		"__completeNoDesc EMPTY":         "replay\n",
		"__complete policies EMPTY":      "describe\t",
		"__complete datasets make EMPTY": "ruler\t",
		"__complete replay EMPTY":        ":0\n", // file names
		"completion bash":                "__start_kvreplay",
		"completion":                     "Available Commands",
	} {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.TrimPrefix(args[i], "EMPTY")
		}
		if code, stdout, stderr := run(args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %q", line, code, stdout, stderr, want)
		}
	}
}

func TestHelpOfACommand(t *testing.T) {
	_, want, _ := run("hardware", "price", "--help")
	code, stdout, stderr := run("help", "hardware", "price")
	if code != 0 || stdout != want || stderr != "" || !strings.Contains(stdout, "--entry-bytes") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	if code, stdout, _ := run("help"); code != 0 || !strings.Contains(stdout, "Available Commands") {
		t.Errorf("exit %d, stdout %q", code, stdout)
	}
}

// Advice fits the command that gives it.
func TestAdvice(t *testing.T) {
	out := profiled(t)
	short := filepath.Join(t.TempDir(), "short.parquet")
	if err := os.WriteFile(short, []byte("PAR1xxxxPAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, line := range map[string]string{
		"the trace's is \"\"\n":             "clusters " + newsTrace + " -o " + filepath.Join(t.TempDir(), "c"),
		"\"\": give a file of clusters\n":   "replay " + newsTrace + " --clusters lists",
		"traces: stat nosuch":               "reproduce kvpr --traces nosuch",
		"no cell of the profile is at 9x; ": "time " + out + " --capacity 9x",
		"is Parquet, a trace or a profile":  "leaderboard " + newsTrace,
		"no Parquet file, or a truncated":   "time " + short,
	} {
		if code, stdout, stderr := run(strings.Fields(line)...); code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", line, code, stdout, stderr, want)
		}
	}
}
