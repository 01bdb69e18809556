package cli_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

// atTerminal runs kvreplay with stdout and stderr on a terminal. It returns the terminal's text
// with plain line ends.
func atTerminal(t *testing.T, args ...string) (code int, screen string) {
	t.Helper()
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	defer keyboard.Close()
	_ = pty.Setsize(terminal, &pty.Winsize{Rows: 50, Cols: 200})
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(keyboard) // ends with an error when the terminal closes
		got <- string(text)
	}()
	code = cli.Main(all.Table(), args, terminal, terminal)
	terminal.Close()
	return code, strings.ReplaceAll(<-got, "\r\n", "\n")
}

var nextLine = regexp.MustCompile(`(?m)^next: kvreplay (.*)$`)

// At a terminal each command prints the next command. These work as printed, from the first call of
// kvreplay to a comparison, also with a path that needs quotes.
func TestNextCommands(t *testing.T) {
	corpus, err := filepath.Abs("../../datasets/corpus/deep_vt.parquet")
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	fatal.If(t, os.Mkdir("it's mine", 0o700))
	fatal.If(t, os.Symlink(corpus, "it's mine/t.parquet"))
	follow := func(first []string, want ...string) {
		t.Helper()
		fatal.If(t, os.RemoveAll("results"))
		args := first
		for i, next := range append(want, "") {
			code, screen := atTerminal(t, args...)
			found := nextLine.FindStringSubmatch(screen)
			switch {
			case code != 0:
				t.Fatalf("step %d, %q: exit %d\n%s", i, args, code, screen)
			case next == "":
				return
			case found == nil || found[1] != next:
				t.Fatalf("step %d, %q: next is %q, expected %q\n%s", i, args, found, next, screen)
			}
			if args, err = shellWords(found[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	follow(nil, "datasets extract smollm2_niah_1k_sglang -o t.parquet", "replay t.parquet", "replay t.parquet --per request --out results",
		"leaderboard results", "compare echo:calibrate=on lrfu:gamma=0.95,history=keep results", "policies describe echo")
	follow([]string{"inspect", "it's mine/t.parquet"}, `replay 'it'\''s mine/t.parquet'`)
	follow([]string{"replay", "it's mine/t.parquet", "--policy", "lru,sieve", "--policy", "opt", "--capacity", "2x", "--layers", "0,5"},
		`replay 'it'\''s mine/t.parquet' --capacity 2x --layers 0,5 --policy lru,sieve --policy opt --per request --out results`, "leaderboard results")
	follow([]string{"replay", "t.parquet", "--policy", "LRU", "--capacity", "2x,4x", "--profile", "--out", "p"}, "plan p --layer-map nearest")
	board := []string{"leaderboard", "b", "--where", "offline=true", "--where", "offline=false"}
	must(t, "replay", "t.parquet", "--policy", "lru,fifo,opt", "--capacity", "2x", "--out", "b")
	follow([]string{"compare", "--all", "LRU", "b"}, "policies describe LRU")
	follow(board, "compare lru fifo b --where offline=true --where offline=false")
	odd := []string{"replay", "--policy", "opt", "--capacity", "2x", "--requests", `"a,b"`, "--", "-t.parquet"}
	records := `{"request_id": "a,b", "layer_id": 0, "step_idx": 0, "seq_len_current": 101, "selected_token_pos": [93, 4, 57, 12]}` + "\n" +
		`{"request_id": "a,b", "layer_id": 0, "step_idx": 1, "seq_len_current": 102, "selected_token_pos": [93, 4, 5, 11]}`
	fatal.If(t, os.WriteFile("news.jsonl", []byte(records), 0o600))
	must(t, "import", "news.jsonl", "--topk", "4", "--entry-bytes", "768", "--order", "rank", "--out=-t.parquet")
	follow(odd, `replay ./-t.parquet --capacity 2x --policy opt --requests '"a,b"' --per request --out results`, "leaderboard results")
	follow([]string{"replay", "t.parquet", "./-t.parquet", "--policy", "opt", "--capacity", "2x", "--profile", "--out", "two"}, "leaderboard two")
	must(t, "replay", "t.parquet", "--policy", "lru", "--capacity", "1x,2x,4x", "--per", "stream", "--out", "a")
	follow([]string{"allocate", "a", "--memory", "2x", "-o", "plan.yaml"}, "replay t.parquet --allocation plan.yaml")
	fatal.If(t, os.Symlink(strings.Replace(corpus, "deep_vt", "selectors_qa_text.retroinfer", 1), "clustered.parquet"))
	follow([]string{"clusters", "clustered.parquet", "-o", "c.jsonl"}, "replay clustered.parquet --clusters c.jsonl")
	follow([]string{"replay", "clustered.parquet", "--clusters", "c.jsonl", "--policy", "lru,lfu", "--capacity", "2x"},
		"replay clustered.parquet --capacity 2x --clusters c.jsonl --policy lru,lfu --per request --out results", "compare lru lfu results")
	fails(t, 1, "clusters have no optimum", "leaderboard", "results", "--where", "clusters!=")
	_, screen := atTerminal(t, "plan", "p", "--layer-map", "nearest", "--max-batch", "2", "--steps", "2", "--schedule", "da,flexgen", "--hardware", "H200")
	found := nextLine.FindStringSubmatch(screen)
	if found == nil {
		t.Fatalf("no next command of plan:\n%s", screen)
	}
	if text := must(t, strings.Fields(found[1])...); !strings.Contains(text, "on h200, batch") {
		t.Errorf("%s:\n%s", found[1], text)
	}
}

// shellWords splits a printed command as a POSIX shell does, with the quotes that kvreplay prints.
func shellWords(line string) ([]string, error) {
	return words(strings.ReplaceAll(line, `'\''`, `'"'"'`), "")
}

// A pipe gets no next command and no progress bar.
func TestNoNextInPipes(t *testing.T) {
	for _, args := range [][]string{{"policies"}, {"replay", sglangTrace, "--policy", "lru", "--capacity", "2x"}, {"inspect", sglangTrace}} {
		if code, stdout, stderr := run(args...); code != 0 || strings.Contains(stdout+stderr, "next:") || strings.Contains(stderr, "\r") {
			t.Errorf("%v: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// plan and reproduce show a bar at a terminal and remove it.
func TestProgressAtTerminal(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", sglangTrace, "--policy", "lru", "--capacity", "2x,4x", "--profile", "--out", out)
	for _, c := range []struct{ args, bar string }{
		{"plan " + out + " --layer-map nearest --max-batch 2 --steps 2", "plan   0%"},
		{"reproduce links", "reproduce   0%"},
	} {
		code, screen := atTerminal(t, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(screen, c.bar) {
			t.Errorf("%s: exit %d, no %q on the screen:\n%q", c.args, code, c.bar, screen)
		}
		if _, _, stderr := run(strings.Fields(c.args)...); stderr != "" {
			t.Errorf("%s: stderr of a pipe is %q", c.args, stderr)
		}
	}
}
