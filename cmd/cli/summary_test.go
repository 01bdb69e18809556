package cli_test

import (
	"strings"
	"testing"
)

// Without --out a replay prints at most ten lines, whatever ran: hit rates and × OPT that the
// rows have. --format prints the rows.
func TestReplaySummary(t *testing.T) {
	const path = "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet"
	for _, args := range [][]string{nil, {"--policy", "lossy,lru,opt"}, {"--policy", "window:1-8"}, {"--capacity", "sweep:16", "--policy", "lru,opt"},
		{"--policy", "lru", "--capacity", "1x", "--tier", "dram=lru@4x"}, {"../../datasets/corpus/wide_questions.parquet", "--warmup", "cold"}} {
		text := must(t, append([]string{"replay", path}, args...)...)
		if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) > 10 {
			t.Errorf("%v prints %d lines:\n%s", args, len(lines), text)
		}
	}
	// 137125 misses of 979200 are 86.0 % hits, and 137125 ÷ 91492 is 1.50.
	text := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x")
	for _, want := range []string{" lru ", "86.0 %  1.50×", "72.8 %  1.01×", "all 6 rows", "\nwarning: cold start: the trace has no prompt windows"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	perStream := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x", "--format", "summary", "--per", "stream", "--parallel", "1")
	if before, _, _ := strings.Cut(text, "all 6 rows"); !strings.HasPrefix(perStream, before) {
		t.Errorf("the figures depend on --per:\n%s", perStream)
	}
	if table := must(t, "replay", path, "--policy", "lru,opt,fifo", "--capacity", "1x,2x", "--format", "table"); strings.Count(table, "\n") != 9 || !strings.Contains(table, "137125") {
		t.Errorf("--format table:\n%s", table)
	}
}

// Policies that a group leaves out are one line, and the same line of several traces is
// printed once. --explain says why each is left out.
func TestLeftOutIsOneLine(t *testing.T) {
	const path, other = "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet", "../../datasets/corpus/wide_questions.parquet"
	_, _, stderr := run("replay", path, "--policy", "all,lossy", "--capacity", "2x")
	if n := strings.Count(stderr, "left out"); n != 1 || !strings.Contains(stderr, "7 policies left out: looks at how many entries of a block are demanded (block-lfu), needs scores (score-ewma), needs prompt_mass (adakv, pyramidkv, snapkv)") {
		t.Errorf("%d lines about policies left out:\n%s", n, stderr)
	}
	_, _, stderr = run("replay", path, "--policy", "all,lossy", "--capacity", "2x", "--explain")
	if n := strings.Count(stderr, "left out"); n != 7 || !strings.Contains(stderr, "score-ewma:decay=0.8 left out: it needs scores, the trace has none\n") {
		t.Errorf("%d explanations:\n%s", n, stderr)
	}
	_, _, stderr = run("replay", path, other, "--policy", "block-lfu,lru", "--capacity", "2x")
	if !strings.Contains(stderr, "policy block-lfu:admit=0 cannot run here") {
		t.Errorf("a policy that is named must run: %s", stderr)
	}
	_, _, stderr = run("replay", other, "../../datasets/corpus/wide_retrieval.parquet", "--policy", "all", "--capacity", "2x", "--layers", "5")
	if want := "all 2 traces: 1 policy left out: looks at how many entries of a block are demanded (block-lfu)"; strings.Count(stderr, want) != 1 || strings.Count(stderr, "left out") != 1 {
		t.Errorf("%s\nexpected once: %s", stderr, want)
	}
}
