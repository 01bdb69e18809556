package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/serial"
)

// serial counts the same demand as replay, and flattens the accesses that it counts.
func TestSerialCommand(t *testing.T) {
	out, _ := kvreplay(t, 0, "serial", newsTrace, "--policy", "lru", "--capacity", "2x", "--layers", "5", "--format", "jsonl")
	var row serial.Row
	fatal.If(t, json.Unmarshal([]byte(out), &row))
	rows, _ := kvreplay(t, 0, "replay", newsTrace, "--policy", "lru", "--capacity", "2x", "--layers", "5", "--format", "jsonl")
	var stepped struct{ Demand, Misses int64 }
	fatal.If(t, json.Unmarshal([]byte(rows), &stepped))
	if row.Accesses != stepped.Demand || row.StepMisses != stepped.Misses || row.Misses <= row.BirthMisses {
		t.Errorf("serial %+v, replay %+v", row, stepped)
	}
	csv, _ := kvreplay(t, 0, "serial", newsTrace, "--layers", "5", "--flatten")
	counted := int64(0)
	for _, line := range strings.Split(strings.TrimSpace(csv), "\n")[1:] {
		if !strings.HasPrefix(line, "0,-") {
			counted++
		}
	}
	if counted != row.Accesses {
		t.Errorf("%d accesses flattened, %d counted", counted, row.Accesses)
	}
}

func TestSerialUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"no per-access cache":                                 {newsTrace, "--policy", "lfu"},
		"pooling=max is lossy":                                {newsTrace, "--policy", "snapkv"},
		"places blocks":                                       {newsTrace, "--warmup", "staging"},
		"expected table or jsonl":                             {newsTrace, "--format", "csv"},
		"expected at least 1":                                 {newsTrace, "--topk", "0"},
		"prints one trace":                                    {newsTrace, newsTrace, "--flatten"},
		"--policy has no effect with --flatten":               {newsTrace, "--flatten", "--policy", "lru"},
		"--capacity has no effect with --flatten":             {newsTrace, "--flatten", "--capacity", "2x"},
		"--format has no effect with --flatten":               {newsTrace, "--flatten", "--format", "jsonl"},
		"capacity 1x+2x@64 grows":                             {newsTrace, "--capacity", "1x+2x@64"},
		"--layers is empty":                                   {newsTrace, "--layers", ""},
		"trace missing":                                       {},
		"expected 1.5x (× K)":                                 {newsTrace, "--capacity", "much"},
		`"lr", did you mean lru?; known: 2q, arc, lru` + "\n": {newsTrace, "--policy", "lr"},
		"policy opt has no per-access cache":                  {newsTrace, "--policy", "all,opt"},
		"is named twice":                                      {newsTrace, newsTrace},
		"by a command of its own":                             {newsTrace, filepath.Join(t.TempDir(), filepath.Base(newsTrace))},
	} {
		if _, stderr := kvreplay(t, 2, append([]string{"serial"}, args...)...); !strings.Contains(stderr, want) {
			t.Errorf("serial %v: %q, want %q", args, stderr, want)
		}
	}
}

// "all" means the policies with a per-access cache. If a trace does not fit, the error speaks of
// serial and comes before any replay. All traces are opened first.
func TestSerialBeforeTheWork(t *testing.T) {
	out, _ := kvreplay(t, 0, "serial", newsTrace, "--policy", "all", "--capacity", "2x", "--layers", "5")
	if strings.Count(out, "\n") != 2+len(serial.Policies()) {
		t.Errorf("all policies: %s", out)
	}
	for want, args := range map[string][]string{
		"kvreplay: serial replay of " + newsTrace + `: request "foo" is not in the trace`: {newsTrace, "--requests", "foo"},
		"kvreplay: serial replay of " + newsTrace + ": layer 99 is not in the trace":      {newsTrace, "--layers", "99", "--flatten"},
		"kvreplay: open trace: ": {newsTrace, "nowhere.parquet"},
	} {
		if out, stderr := kvreplay(t, 1, append([]string{"serial"}, args...)...); out != "" || !strings.HasPrefix(stderr, want) {
			t.Errorf("serial %v: %q, want %q", args, stderr, want)
		}
	}
}
