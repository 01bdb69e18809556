package cli_test

import (
	"strings"
	"testing"
)

// A policy that was replayed by its name is found by its name, wherever rows and profiles
// are read.
func TestPoliciesByName(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", "../../datasets/bundled/smollm2_niah_1k_sglang.parquet", "--policy", "opt,lru,s3-fifo,lfu-decay:half_life=4,lfu-decay:half_life=8",
		"--capacity", "1.5x,2x", "--per", "stream", "--profile", "--out", out)
	for _, args := range [][]string{
		{"compare", "s3-fifo", "lru", out},
		{"time", out, "--policy", "s3-fifo", "--capacity", "2x", "--layer-map", "nearest"},
		{"plan", out, "--policy", "s3-fifo,lru", "--layer-map", "nearest", "--max-batch", "2", "--steps", "2", "--every-cell"},
		{"allocate", out, "--policy", "s3-fifo", "--memory", "2x"},
		{"leaderboard", out, "--where", "policy=s3-fifo", "--where", "policy=opt"},
	} {
		if got := must(t, args...); !strings.Contains(got, "s3-fifo:small=0.1") {
			t.Errorf("%v does not say whose figures these are:\n%s", args, got)
		}
	}
	if _, _, stderr := run("compare", "lfu-decay", "lru", out); !strings.Contains(stderr, "did you mean lfu-decay:half_life=4 or lfu-decay:half_life=8?") {
		t.Errorf("a name of two policies: %s", stderr)
	}
}
