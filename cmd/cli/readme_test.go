package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the README's leaderboard")

// The leaderboard in the README equals the output of `make leaderboard` for exact policies and
// lossy methods.
func TestREADMEBoardIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the corpus through every policy")
	}
	out := t.TempDir()
	traces, err := filepath.Glob("../../datasets/corpus/[dw]*_*.parquet") // deep and wide
	if err != nil || len(traces) != 7 {
		t.Fatalf("traces %v, %v", traces, err)
	}
	args := append([]string{"replay"}, traces...)
	if code, _, stderr := run(append(args, "--policy", "all", "--policy", "lossy", "--capacity", "1.25x,1.5x,2x,3x,4x", "--per", "request", "--out", out)...); code != 0 {
		t.Fatal(stderr)
	}
	code, board, stderr := run("leaderboard", out)
	if code != 0 {
		t.Fatal(stderr)
	}
	title := strings.Index(board, "Policies without capacity")
	if title < 0 {
		t.Fatalf("the board has no windows:\n%s", board)
	}
	board = board[:strings.LastIndex(board[:title], "\n")]
	const path = "../../README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), "rewrites it -->\n```\n")
	_, after, ok2 := strings.Cut(rest, "```\n<!-- end of board")
	if !ok1 || !ok2 {
		t.Fatal("the README has lost the marks of its board")
	}
	want := before + "rewrites it -->\n```\n" + board + "```\n<!-- end of board" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the README's board is not what the program prints now; go test ./cmd/cli -run READMEBoard -update rewrites it:\n%s", board)
	}
}

// import accepts the record in the README.
func TestREADMERecord(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	record, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README shows no record")
	}
	dir := t.TempDir()
	lines, made := filepath.Join(dir, "own.jsonl"), filepath.Join(dir, "own.parquet")
	if err := os.WriteFile(lines, []byte(record), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", lines, "-o", made, "--order", "rank"}, {"validate", made}} {
		if code, _, stderr := run(args...); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}
