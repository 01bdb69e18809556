package cli_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The misses of each variant are those of a replay of it. The default is among them.
func TestSweepOptions(t *testing.T) {
	text := must(t, "sweep-options", "s3-fifo:small=0.05|0.2", newsTrace, "--capacity", "2x", "--format", "json")
	var swept []struct {
		Policy  string
		Default bool
		Misses  int64
		XOpt    struct{ Value float64 } `json:"x_opt"`
	}
	if err := json.Unmarshal([]byte(text), &swept); err != nil || len(swept) != 3 || !swept[2].Default || swept[2].Policy != "s3-fifo:small=0.1" {
		t.Fatalf("%v: %s", err, text)
	}
	for _, v := range swept {
		rows := must(t, "replay", newsTrace, "--policy", v.Policy, "--policy", "opt", "--capacity", "2x", "--format", "jsonl")
		var misses []int64
		for line := range strings.Lines(rows) {
			var row struct{ Misses int64 }
			fatal.If(t, json.Unmarshal([]byte(line), &row))
			misses = append(misses, row.Misses)
		}
		if v.Misses != misses[0] || math.Abs(v.XOpt.Value-float64(misses[0])/float64(misses[1])) > 1e-8 {
			t.Errorf("%+v, a replay has %d misses of %d", v, misses[0], misses[1])
		}
	}
	drawn := filepath.Join(t.TempDir(), "small.svg")
	text = must(t, "sweep-options", "s3-fifo:small=0.05..0.2/3", newsTrace, "--capacity", "2x", "-o", drawn)
	if !strings.Contains(text, "default") || !strings.Contains(text, "lowest") || !strings.Contains(content(t, drawn), ">small<") {
		t.Errorf("no variants, or another figure:\n%s", text)
	}
}

func TestSweepOptionsRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a.svg")
	for want, args := range map[string][]string{
		"POLICY:OPTION=VALUES or trace missing": {"lrfu:gamma=0.9..0.99"},
		"expected an option with values":        {"lru", newsTrace},
		"is not between":                        {"lrfu:gamma=0.5..2", newsTrace},
		"expected an exact policy":              {"h2o:recent=0.2|0.5", newsTrace},
		"but kin and kout vary":                 {"2q:kin=0.1|0.2,kout=1|2", newsTrace, "-o", out},
		"ends in .pdf, .svg, .png":              {"lrfu:gamma=0.9..0.99", newsTrace, "-o", "a.gif"},
		`but calibrate is "on"`:                 {"echo:calibrate=on|off", newsTrace, "--capacity", "2x", "-o", out},
	} {
		wantRefused(t, 2, want, append([]string{"sweep-options"}, args...)...)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused command wrote its figure")
	}
	wantRefused(t, 1, "stat missing.parquet", "sweep-options", "lrfu:gamma=0.9..0.99", "missing.parquet")
}
