package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/allocate"
)

// gainMemories are the columns of the README's gains.
var gainMemories = []string{"1.25x", "1.5x", "2x", "3x", "4x"}

// gainCase is a line of the README's gains.
type gainCase struct {
	profiled, judged string // names in the table
	rows             string
	judge            []string
}

// The gains in the allocators' README equal the program's output for the bundled traces.
func TestAllocateREADMEIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("replays all bundled traces")
	}
	greedy, err := allocate.ParseMethod("2d-greedy")
	fatal.If(t, err)
	pyramid, err := allocate.ParseMethod("pyramidkv")
	fatal.If(t, err)
	var pyramids []float64 // judged gains of the deep traces
	var b strings.Builder
	fmt.Fprintf(&b, "| profiled on | judged on | %s |\n|---|---|%s\n", strings.Join(gainMemories, " | "), strings.Repeat("---|", len(gainMemories)))
	for _, c := range slices.Concat(deep(t), halves(t), tasks(t)) {
		fmt.Fprintf(&b, "| %s | %s |", c.profiled, c.judged)
		rows, err := result.ReadRows(c.rows)
		fatal.If(t, err)
		for _, memory := range gainMemories {
			r, err := allocate.Run(rows, allocate.Options{Methods: []allocate.Spec{greedy, pyramid}, Memory: memory, Judge: c.judge})
			fatal.If(t, err)
			fmt.Fprintf(&b, " %.3f / %.3f |", *r[0].Profile.Ratio, *r[0].Judge.Ratio)
			if strings.HasPrefix(c.profiled, "deep_") || strings.HasPrefix(c.profiled, "all three") {
				pyramids = append(pyramids, *r[1].Judge.Ratio)
			}
		}
		b.WriteByte('\n')
	}
	const path = "../../replay/allocate/README.md"
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	before, rest, ok1 := strings.Cut(string(text), "rewrites it -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of gains")
	if !ok1 || !ok2 {
		t.Fatal("the README has lost the marks of its gains")
	}
	if times := fmt.Sprintf("(%.2f to %.2f times)", slices.Min(pyramids), slices.Max(pyramids)); !strings.Contains(after, times) {
		t.Errorf("PyramidKV's law moves %s on the deep traces' requests kept apart, which the README does not say", times)
	}
	want := before + "rewrites it -->\n" + b.String() + "<!-- end of gains" + after
	if *update {
		fatal.If(t, os.WriteFile(path, []byte(want), 0o644))
	} else if want != string(text) {
		t.Errorf("the gains are not what the program prints now; go test ./cmd/cli -run AllocateREADME -update rewrites them:\n%s", b.String())
	}
}

// deep profiles requests of the corpus' deep part and judges others: of the same task, of all
// tasks, and of another task.
func deep(t *testing.T) (cases []gainCase) {
	paths, err := filepath.Glob("../../datasets/corpus/deep_*.parquet")
	if err != nil || len(paths) != 3 {
		t.Fatalf("deep traces %v, %v", paths, err)
	}
	rows := profileOf(t, append(slices.Clone(paths), "--policy", "lru", "--capacity", "sweep:16")...)
	later := []string{"*-3", "*-4"}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".parquet")
		cases = append(cases, gainCase{name + ", requests 0–2", "requests 3–4", profileOf(t, path, "--policy", "lru", "--capacity", "sweep:16"), later})
	}
	return append(cases, gainCase{"all three, requests 0–2", "requests 3–4", rows, later},
		gainCase{"deep_niah_multikey_2 and deep_vt", "deep_summary_go", rows, []string{"*summary_go*"}})
}

// halves profiles the first half of each bundled trace and judges the second.
func halves(t *testing.T) (cases []gainCase) {
	for _, c := range []struct {
		name  string
		steps int
	}{{"smollm2_multi_news_8k", 48}, {"smollm2_niah_1k_sglang", 32}, {"smollm2_niah_multikey_3_4k", 64}} {
		path, dir := "../../datasets/bundled/"+c.name+".parquet", t.TempDir()
		first, second := filepath.Join(dir, "first.parquet"), filepath.Join(dir, "second.parquet")
		must(t, "derive", path, "-o", first, "--steps", fmt.Sprintf(":%d", c.steps))
		must(t, "derive", path, "-o", second, "--steps", fmt.Sprintf("%d:", c.steps))
		rows := profileOf(t, first, second, "--warmup", "cold", "--policy", "lru", "--capacity", "sweep")
		cases = append(cases, gainCase{c.name + ", first half", "second half", rows, []string{"second.parquet"}})
	}
	return cases
}

// tasks profiles one task and judges another, on their common layers.
func tasks(t *testing.T) []gainCase {
	needle := filepath.Join(t.TempDir(), "needle.parquet")
	must(t, "derive", "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet", "-o", needle, "--layers", "0,5,10,15,20,25")
	rows := profileOf(t, newsTrace, needle, "--candidates", "256", "--warmup", "cold", "--policy", "lru", "--capacity", "sweep")
	return []gainCase{
		{"smollm2_niah_multikey_3_4k", "smollm2_multi_news_8k", rows, []string{"smollm2*"}},
		{"smollm2_multi_news_8k", "smollm2_niah_multikey_3_4k", rows, []string{"needle*"}},
	}
}
