package cli_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Commands that read rows one at a time print and write the same bytes for rows in any order, and for
// repeated rows. Rows of a cell in several places make them read all rows at once.
func TestOutputsOfAnyOrder(t *testing.T) {
	byStream := must(t, "replay", newsTrace, "--policy", "lru,fifo,opt", "--capacity", "1.5x,2x", "--per", "stream", "--format", "jsonl")
	sets := map[string]string{"requests": content(t, exampleRows), "streams": byStream}
	t.Chdir(t.TempDir())
	for name, rows := range sets {
		lines := strings.SplitAfter(strings.TrimSuffix(rows, "\n"), "\n")
		lines[len(lines)-1] += "\n"
		reversed, mixed := slices.Clone(lines), slices.Clone(lines)
		slices.Reverse(reversed)
		rng := rand.New(rand.NewPCG(1, 1))
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		read, err := result.DecodeRows(strings.NewReader(rows), "rows")
		fatal.If(t, err)
		var sorted bytes.Buffer
		fatal.If(t, result.WriteJSONL(&sorted, result.MergeRows(read, nil)))
		var doubled []string
		for _, line := range lines {
			doubled = append(doubled, line, line)
		}
		for _, args := range [][]string{
			{"leaderboard", "rows.jsonl", "--out", "out"}, {"leaderboard", "rows.jsonl", "--where", "capacity!=4x", "--out", "out"},
			{"compare", "lru", "fifo", "rows.jsonl"}, {"compare", "--all", "LRU", "rows.jsonl", "--format", "json"},
			{"plot", "heatmap", "rows.jsonl", "--policy", "LRU", "--capacity", "1.5x", "-o", "out/heads.svg"}, {"plot", "heatmap", "rows.jsonl", "--policy", "opt", "--capacity", "2x", "--value", "misses", "-o", "out/heads.svg"},
			{"compare", "lru", "none", "rows.jsonl"}, {"compare", "lru", "lru", "rows.jsonl"},
		} {
			var want string
			for i, order := range [][]string{lines, reversed, mixed, {sorted.String()}, doubled, slices.Concat(lines, lines)} {
				fatal.If(t, os.WriteFile("rows.jsonl", []byte(strings.Join(order, "")), 0o600))
				fatal.If(t, os.RemoveAll("out"))
				fatal.If(t, os.Mkdir("out", 0o700))
				code, stdout, stderr := run(args...)
				got := strings.Join([]string{string(rune('0' + code)), stdout, stderr, folder(t, "out")}, "\n")
				if i == 0 {
					want = got
				} else if got != want {
					t.Errorf("%s in order %d: %s: other outputs", name, i, strings.Join(args, " "))
				}
			}
		}
	}
}

// folder returns the names and contents of the files of a folder.
func folder(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	fatal.If(t, err)
	var b strings.Builder
	for _, path := range found {
		b.WriteString(path + "\n" + content(t, path))
	}
	return b.String()
}
