// Package corpus_test makes a part of the corpus from nothing.
package corpus_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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
	if strings.Contains(again, "-m capture") {
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

// checkTraces reads the written traces.
func checkTraces(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) != 9 {
		t.Fatalf("%d traces, expected 9 (%v)", len(paths), err)
	}
	for _, path := range paths {
		f, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out.Bytes())
	}
	return out.String()
}
