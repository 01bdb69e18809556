// Package corpus_test makes a part of the corpus from nothing.
package corpus_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// One short prompt passes through all steps with the real model. It is made, captured by every
// selector, imported, validated and replayed. A second run forces decoding along the model's answer
// and must give the same selections.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a language model")
	}
	requireEnvironment(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "kvreplay")
	run(t, "go", "build", "-o", program, "../../cmd/kvreplay")
	out := filepath.Join(dir, "corpus")
	args := []string{"corpus.py", "--kvreplay", program, "--parts", "selectors", "--tasks", "niah_multikey_3",
		"--length", "768", "--samples", "1", "--steps", "6"}
	printed := run(t, "python3", append(args, "--out", out)...)
	if !strings.Contains(printed, "misses ÷ OPT") {
		t.Errorf("no board:\n%s", printed)
	}
	checkRecall(t, recalls(t, printed))
	checkTraces(t, filepath.Join(out, "selectors_*.parquet"))
	again := run(t, "python3", append(args, "--out", out)...)
	if strings.Contains(again, "-m kvreplay.captures") {
		t.Errorf("made again what was there:\n%s", again)
	}
	other := filepath.Join(dir, "again", "work") // the tokenizer takes as long as the capture, so it runs once
	run(t, "mkdir", "-p", other)
	run(t, "cp", filepath.Join(out, "work", "tokenizer.json"), other)
	check := run(t, "python3", append(args, "--out", filepath.Join(dir, "again"), "--check", out)...)
	if n := strings.Count(check, "100.0000%"); n != 9 {
		t.Errorf("%d of 9 traces have the same selections again:\n%s", n, check)
	}
}

// A short prompt of part systems is captured in all layers. Its list has the measurements of three
// budgets, and its subset the layers and columns of the plan.
func TestSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a language model")
	}
	requireEnvironment(t)
	dir := t.TempDir()
	program, out := filepath.Join(dir, "kvreplay"), filepath.Join(dir, "systems")
	run(t, "go", "build", "-o", program, "../../cmd/kvreplay")
	printed := run(t, "python3", "corpus.py", "--kvreplay", program, "--parts", "systems", "--tasks", "niah_multikey_3", "--length", "1024", "--steps", "3", "--longest", "8", "--out", out)
	if !strings.Contains(printed, "0 of 9 traces of part systems are those of") {
		t.Errorf("traces of a short prompt are those of the list:\n%s", printed)
	}
	found := map[string][]float64{}
	for _, line := range list(t, filepath.Join(out, "systems.csv")) {
		recall, err := strconv.ParseFloat(line["recall"], 64)
		fatal.If(t, err)
		found[line["trace"]] = append(found[line["trace"]], recall)
	}
	for name, recalls := range found {
		if len(recalls) != 3 || recalls[0] <= 0 || recalls[2] > 1 || strings.HasSuffix(name, ".exact") && slices.Min(recalls) != 1 {
			t.Errorf("%s: recall %v at three budgets", name, recalls)
		}
	}
	f, err := trace.Open(filepath.Join(out, "systems_niah_multikey_3.exact.parquet"))
	fatal.If(t, err)
	if m := f.Meta(); m.TopK != 16 || m.Candidates != 8*m.TopK {
		t.Errorf("K is %d and lists have %d entries, expected 16 and 8 × K", m.TopK, m.Candidates)
	}
	f.Close()
	paths, err := filepath.Glob(filepath.Join(out, "subset", "*.parquet"))
	if err != nil || len(paths) != 9 || len(found) != 9 {
		t.Fatalf("%d traces in the list and %d in the subset, expected 9 (%v)", len(found), len(paths), err)
	}
	for _, path := range paths {
		f, err := trace.Open(path)
		fatal.If(t, err)
		kept := strings.HasSuffix(path, ".exact.parquet") || strings.HasSuffix(path, ".kvdrive.parquet")
		if n := len(f.Streams()); n != 9 || f.HasScores() != kept || f.HasPromptMass() != strings.HasSuffix(path, ".exact.parquet") || f.HasAttentionMass() {
			t.Errorf("%s: %d streams, expected 3 layers × 3 heads, and scores and prompt mass as in the plan", path, n)
		}
		f.Close()
	}
}

var update = flag.Bool("update", false, "rewrite the tables of README.md")

// The tables of README.md have the measurements of systems.csv. -update rewrites them.
func TestQuality(t *testing.T) {
	const begin, end = "<!-- of systems.csv -->\n\n", "\n<!-- end -->\n"
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("README.md has no place between %q and %q", begin, end)
	}
	want := before + begin + quality(t) + end + after
	if *update {
		fatal.If(t, os.WriteFile("README.md", []byte(want), 0o644))
	} else if string(text) != want {
		t.Errorf("README.md has not the measurements of systems.csv: go test ./scripts/corpus -run Quality -update\n%s", quality(t))
	}
}

// quality returns a table for each budget, with recall and mass by selector and task.
func quality(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	cells, tasks, selectors, budgets := measurements(t)
	for _, tokens := range budgets {
		fmt.Fprintf(&out, "%s| K = %s | %s |\n|---|%s\n", map[bool]string{true: "\n"}[out.Len() > 0], tokens, strings.Join(tasks, " | "), strings.Repeat("---:|", len(tasks)))
		for _, s := range selectors {
			fmt.Fprintf(&out, "| `%s` |", s)
			for _, task := range tasks {
				fmt.Fprintf(&out, " %s |", cells[[3]string{task, s, tokens}])
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// measurements reads systems.csv. A cell is recall and mass of a task, selector and budget. The
// selectors are sorted by their recall at the least budget, over all tasks.
func measurements(t *testing.T) (cells map[[3]string]string, tasks, selectors, budgets []string) {
	t.Helper()
	cells, sum := map[[3]string]string{}, map[string]float64{}
	for _, line := range list(t, "systems.csv") {
		task, selector, _ := strings.Cut(strings.TrimPrefix(line["trace"], "systems_"), ".")
		recall, err := strconv.ParseFloat(line["recall"], 64)
		if err != nil || recall < 0 || recall > 1 {
			t.Fatalf("%v: recall %v", line, err)
		}
		mass, err := strconv.ParseFloat(line["mass"], 64)
		if err != nil || mass < 0 || mass > 1.5 {
			t.Fatalf("%v: mass %v", line, err)
		}
		if selector == "exact" && recall != 1 {
			t.Errorf("%v: the exact Top-K has a recall of 1", line)
		}
		cells[[3]string{task, selector, line["tokens"]}] = fmt.Sprintf("%.2f, %.2f", recall, mass)
		for _, one := range []struct {
			list *[]string
			name string
		}{{&tasks, task}, {&selectors, selector}, {&budgets, line["tokens"]}} {
			if !slices.Contains(*one.list, one.name) {
				*one.list = append(*one.list, one.name)
			}
		}
		if line["tokens"] == budgets[0] {
			sum[selector] += recall
		}
	}
	if len(cells) != len(tasks)*len(selectors)*len(budgets) {
		t.Errorf("systems.csv has %d measurements, expected %d tasks × %d selectors × %d budgets", len(cells), len(tasks), len(selectors), len(budgets))
	}
	slices.SortStableFunc(selectors, func(a, b string) int { return int(1e6 * (sum[b] - sum[a])) })
	return cells, tasks, selectors, budgets
}

// list returns the lines of a list like systems.csv by column.
func list(t *testing.T, path string) (lines []map[string]string) {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	for _, row := range rows[1:] {
		line := map[string]string{}
		for i, name := range rows[0] {
			line[name] = row[i]
		}
		lines = append(lines, line)
	}
	return lines
}

// The bundled traces of part systems are derived from those of systems.csv, and have their
// measurements.
func TestBundledSystems(t *testing.T) {
	paths, err := filepath.Glob("../../datasets/corpus/systems_*.parquet")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no bundled traces: %v", err)
	}
	whole := map[string]map[string]string{}
	for _, line := range list(t, "systems.csv") {
		if whole[line["trace"]] == nil { // the first line is that of the trace's K
			whole[line["trace"]] = line
		}
	}
	for _, path := range paths {
		f, err := trace.Open(path)
		fatal.If(t, err)
		m, line := f.Meta(), whole[strings.TrimSuffix(filepath.Base(path), ".parquet")]
		f.Close()
		if line == nil || !strings.HasPrefix(m.Notes["derived"], "from "+line["digest"]+" by ") || strconv.Itoa(m.TopK*m.BlockTokens) != line["tokens"] ||
			m.Notes["exact.recall"] != line["recall"] || m.Notes["exact.mass"] != line["mass"] {
			t.Errorf("%s: K %d of %d tokens, notes %v; systems.csv has %v", path, m.TopK, m.BlockTokens, m.Notes, line)
		}
	}
}

// checkTraces reads the written traces.
func checkTraces(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 9 {
		t.Fatalf("%d traces, expected 9 (%v)", len(paths), err)
	}
	for _, path := range paths {
		f, err := trace.Open(path)
		fatal.If(t, err)
		m := f.Meta()
		if len(f.Streams()) != 6 || m.Licence != "Apache-2.0" || m.Notes["attention"] == "" || *m.Sink != 4 || *m.Local != 64 || m.TopK != (12+m.BlockTokens-1)/m.BlockTokens {
			t.Errorf("%s: %d streams, %+v", filepath.Base(path), len(f.Streams()), m)
		}
		f.Close()
	}
}

// checkRecall compares the order of the selectors with their papers. Smaller pages are more precise
// (Quest, section 4). A few columns of query and key nearly decide the selection (InfiniGen,
// section 4). All selectors are better than chance. ShadowKV is in no pair, because in such a short
// prompt most chunks are its outliers.
func checkRecall(t *testing.T, recall map[string]float64) {
	t.Helper()
	const chance = 12.0 / 650
	for name, r := range recall {
		if r < 2*chance {
			t.Errorf("%s finds %.3f of the exact Top-K, chance finds %.3f", name, r, chance)
		}
	}
	for _, pair := range [][2]string{{"exact", "infinigen"}, {"infinigen", "pqcache"}, {"infinigen", "magicpig"}, {"pqcache", "quest"}, {"quest-page8", "quest"}} {
		if recall[pair[0]] < recall[pair[1]] {
			t.Errorf("%s finds %.3f of the exact Top-K, %s %.3f: expected the other order", pair[0], recall[pair[0]], pair[1], recall[pair[1]])
		}
	}
	if recall["exact"] != 1 || len(recall) != 9 {
		t.Errorf("recall %v, expected nine selectors and 1 for exact", recall)
	}
}

// recalls reads the table that the capture prints: selector, K, block, recall, …
func recalls(t *testing.T, printed string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+) +\d+ +\d+ +([01]\.\d+) `).FindAllStringSubmatch(printed, -1) {
		r, err := strconv.ParseFloat(m[2], 64)
		fatal.If(t, err)
		found[m[1]] = r
	}
	return found
}

// requireEnvironment skips the test if the capture's environment is absent and
// KVREPLAY_REQUIRE_CAPTURE=1 does not require it.
func requireEnvironment(t *testing.T) {
	t.Helper()
	if os.Getenv("KVREPLAY_REQUIRE_CAPTURE") == "1" {
		return // corpus.py makes it
	}
	if out, err := exec.Command("python3", "../capture/environment.py").CombinedOutput(); err != nil {
		t.Skipf("no corpus without the capture's environment (KVREPLAY_REQUIRE_CAPTURE=1 makes it): %v\n%s", err, out)
	}
}

// run returns the output of a command on both streams. It must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 19*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out.Bytes())
	}
	return out.String()
}
