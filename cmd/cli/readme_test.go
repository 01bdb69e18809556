package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite the parts of documents that are made from results")

// rewritten compares a file with its text as it is made now. With -update it writes the file.
func rewritten(t *testing.T, path, text, how string) {
	t.Helper()
	if *update {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != text {
		t.Errorf("%s is out of date (%v): run go test ./cmd/cli -run %s -update", path, err, how)
	}
}

// rewrittenPart does so for the part of a document that begins after the comment
// "<!-- NAME: ... -->" and ends before "<!-- end of NAME -->".
func rewrittenPart(t *testing.T, path, name, part, how string) {
	t.Helper()
	text := content(t, path)
	before, rest, ok1 := strings.Cut(text, "<!-- "+name+": ")
	comment, rest, ok2 := strings.Cut(rest, " -->\n")
	_, after, ok3 := strings.Cut(rest, "<!-- end of "+name+" -->")
	if !ok1 || !ok2 || !ok3 {
		t.Fatalf("%s has lost the marks of its %s", path, name)
	}
	rewritten(t, path, before+"<!-- "+name+": "+comment+" -->\n"+part+"<!-- end of "+name+" -->"+after, how)
}

// boardHead is the head of datasets/BOARD.md.
const boardHead = `# The board of the corpus

This reference is for users who want every figure of the [corpus](CARD.md). ` + "`make leaderboard`" + ` computes it, and [metrics](../metrics/README.md) explains the columns. The constants of echo were chosen on 21 of the 47 requests. [Its page](../policies/echo/README.md#results) has figures for the other tasks alone, and says that echo itself takes longer than the fetches that it saves.

× OPT, × LRU and TPOT are geometric means over cells. Gap closed, hit rate and H2D/step (bytes to the GPU per step of a stream) are those of summed counts. These commands print the board without files or pictures:

` + "```sh" + `
kvreplay replay datasets/corpus/{deep,wide}_*.parquet --policy all,lossy --capacity 1.25x,1.5x,2x,3x,4x --per request --out /tmp/board
kvreplay leaderboard /tmp/board
` + "```" + `

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="board-dark.svg">
  <img alt="Misses relative to the optimum for each policy, with 95 % intervals" src="board-light.svg">
</picture>
`

// The board of the bundled traces is what `make leaderboard` makes: its excerpt in the README,
// datasets/BOARD.md and the pictures.
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
	must(t, append(args, "--policy", "all", "--policy", "lossy", "--capacity", "1.25x,1.5x,2x,3x,4x", "--per", "request", "--out", out)...)
	board := must(t, "leaderboard", out, "--out", out)
	for line := range strings.SplitSeq(board, "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("the board has a line of %d columns: %s", n, line)
		}
	}
	_, tables, _ := strings.Cut(content(t, filepath.Join(out, "leaderboard.md")), "\n")
	rewritten(t, "../../datasets/BOARD.md", boardHead+tables, "READMEBoard")
	for name, made := range map[string]string{"board-light.svg": "ranking.svg", "board-dark.svg": "ranking-dark.svg"} {
		rewritten(t, filepath.Join("../../datasets", name), content(t, filepath.Join(out, made)), "READMEBoard")
	}
	for _, kind := range []string{"ranking", "curve"} {
		drawn := filepath.Join(out, kind+".svg")
		must(t, "plot", kind, out, "-o", drawn, "--white")
		rewritten(t, filepath.Join("../../metrics/plots", kind+".svg"), content(t, drawn), "READMEBoard")
	}
	rewrittenPart(t, "../../README.md", "excerpt", "```\n"+excerpt(t, board)+"```\n", "READMEBoard")
}

// excerpt is the title and the header of a board with the lines of the first five policies, of
// LRU and of OPT.
func excerpt(t *testing.T, board string) string {
	t.Helper()
	lines := strings.SplitAfter(board, "\n")
	shown := slices.Clone(lines[:8])
	for _, policy := range []string{"lru", "opt"} {
		i := slices.IndexFunc(lines, func(l string) bool { words := strings.Fields(l); return len(words) > 1 && words[1] == policy })
		if i < 0 {
			t.Fatalf("the board has no line of %s:\n%s", policy, board)
		}
		shown = append(shown, lines[i])
	}
	return strings.Join(shown, "")
}

// The README is short.
func TestREADMESize(t *testing.T) {
	text := content(t, "../../README.md")
	if bytes, words := len(text), len(strings.Fields(text)); bytes > 8<<10 || words > 1200 {
		t.Errorf("README.md has %d bytes and %d words, expected at most 8192 and 1200", bytes, words)
	}
}

// import accepts the record in the README.
func TestREADMERecord(t *testing.T) {
	_, rest, _ := strings.Cut(content(t, "../../README.md"), "```json\n")
	record, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README shows no record")
	}
	dir := t.TempDir()
	lines, made := filepath.Join(dir, "own.jsonl"), filepath.Join(dir, "own.parquet")
	fatal.If(t, os.WriteFile(lines, []byte(record), 0o644))
	for _, args := range [][]string{{"import", lines, "-o", made, "--order", "rank"}, {"validate", made}} {
		if code, _, stderr := run(args...); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}
