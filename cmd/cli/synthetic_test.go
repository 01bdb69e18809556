package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// tiny are flags for a trace that is made quickly.
var tiny = []string{"--context", "1000", "--topk", "64", "--layers", "2", "--steps", "16", "--windows", "4"}

func makeSynthetic(out string, more ...string) (code int, stdout, stderr string) {
	return run(append(append([]string{"datasets", "make", "synthetic", "-o", out}, tiny...), more...)...)
}

// Presets, dial files and flags override each other in that order. The bytes do not depend on
// the number of processors.
func TestMakeSynthetic(t *testing.T) {
	dir := t.TempDir()
	dials := filepath.Join(dir, "dials.yaml")
	fatal.If(t, os.WriteFile(dials, []byte("layers: 3\nheads: 2\noverlap: 0.5\ncontext: 900\ntopk: 32\ncandidates: 40\n"), 0o644))
	var texts []string
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for i, processors := range []int{1, 3} {
		runtime.GOMAXPROCS(processors)
		path := filepath.Join(dir, fmt.Sprint(processors, ".parquet"))
		code, stdout, stderr := makeSynthetic(path, "--preset", "deepseek-v3.2-32k", "--dials", dials, "--heat", "0")
		if code != 0 || stdout != "" || !strings.Contains(stderr, "4 streams, 80 rows, 6,400 indices") {
			t.Fatalf("exit %d: %s%s", code, stdout, stderr)
		}
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		if texts = append(texts, string(text)); texts[i] != texts[0] {
			t.Error("the bytes depend on the number of processors")
		}
	}
	code, stdout, stderr := run("inspect", "--format", "json", filepath.Join(dir, "1.parquet"))
	for _, want := range []string{`"entry_bytes":656`, `\"overlap\":0.5`, `\"heat\":0,`, `"heads":[0,1]`, `"prompt_len":1000`, `"candidates":80`} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("no %s in the metadata: %s%s", want, stdout, stderr)
		}
	}
}

// If the dials contradict each other and the overlap differs, a warning says so.
func TestSyntheticOverlap(t *testing.T) {
	for overlap, warned := range map[string]bool{"0.05": true, "0.8": false} {
		code, _, stderr := makeSynthetic(filepath.Join(t.TempDir(), "t.parquet"), "--overlap", overlap, "--recent", "0", "--burst", "0.8", "--steps", "200")
		if code != 0 || strings.Contains(stderr, "warning: the overlap is 0.") != warned {
			t.Errorf("overlap %s: exit %d, expected a warning: %v\n%s", overlap, code, warned, stderr)
		}
	}
}

// A trace of two steps has one exchange of random size, which is not a contradiction.
func TestSyntheticOverlapOfTwoSteps(t *testing.T) {
	for seed := range 6 {
		code, _, stderr := makeSynthetic(filepath.Join(t.TempDir(), "t.parquet"), "--layers", "1", "--steps", "2", "--windows", "0", "--seed", strconv.Itoa(seed))
		if code != 0 || strings.Contains(stderr, "warning") || !strings.Contains(stderr, ": 1 stream, 2 rows, ") {
			t.Errorf("seed %d: exit %d, %s", seed, code, stderr)
		}
	}
}

// Bad dials are refused before anything is written.
func TestBadSynthetic(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	fatal.If(t, os.WriteFile(bad, []byte("overlapp: 0.5\n"), 0o644))
	out := filepath.Join(dir, "t.parquet")
	for text, c := range map[string]struct {
		code int
		args []string
	}{
		"overlap 1, expected at most":         {2, []string{"--overlap", "1"}},
		"overlap NaN":                         {2, []string{"--overlap", "NaN"}},
		"near -1, expected 0 to 1":            {2, []string{"--near=-1"}},
		"candidates M = 2500, but":            {2, []string{"--topk", "2000"}},
		"candidates M = 10 is less than":      {2, []string{"--candidates", "10"}},
		"did you mean deepseek-v3.2-32k or":   {2, []string{"--preset", "deepseek-32k"}},
		"did you mean overlap?":               {1, []string{"--dials", bad}},
		"no such file":                        {1, []string{"--dials", filepath.Join(dir, "none.yaml")}},
		"unknown flag --gap-medium, did":      {2, []string{"--gap-medium", "3"}},
		"unexpected argument \"more\"":        {2, []string{"more"}},
		"preset llama-3-8b-120k has only 32":  {2, []string{"--preset", "llama-3-8b-120k", "--layers", "33"}},
		"preset deepseek-v3.2-32k has only 6": {2, []string{"--preset", "deepseek-v3.2-32k", "--layers", "70"}},
		"layers 0":                            {2, []string{"--layers", "0"}},
		"streams":                             {2, []string{"--layers", "999999999999"}},
		"expected M = K = 64":                 {2, []string{"--order", "index", "--candidates", "80"}},
	} {
		code, _, stderr := makeSynthetic(out, c.args...)
		if code != c.code || !strings.Contains(stderr, text) {
			t.Errorf("%v: exit %d, %s expected %d, %q", c.args, code, stderr, c.code, text)
		}
	}
	says(t, 2, "-o TRACE", "datasets", "make", "synthetic")
	if code, _, stderr := makeSynthetic(filepath.Join(dir, "no", "t.parquet")); code != 1 {
		t.Errorf("no folder: exit %d, %s", code, stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// fit prints dials, writes them to a file that make reads, and states the difference from the twin.
func TestFitDials(t *testing.T) {
	dir := t.TempDir()
	path, dials := filepath.Join(dir, "t.parquet"), filepath.Join(dir, "dials.yaml")
	if code, _, stderr := makeSynthetic(path, "--steps", "40"); code != 0 {
		t.Fatal(stderr)
	}
	stdout := must(t, "datasets", "fit", path, "-o", dials, "--check", "--seed", "5")
	for _, want := range []string{"gap_median", "2 layers, K = 64, M = 80", "lookahead", "opt", "1.25x", "4x", "%"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	text, err := os.ReadFile(dials)
	if err != nil || !strings.Contains(string(text), "seed: 5\n") {
		t.Errorf("dial file: %v\n%s", err, text)
	}
	if code, _, stderr := run("datasets", "make", "synthetic", "--dials", dials, "-o", filepath.Join(dir, "twin.parquet")); code != 0 {
		t.Error(stderr)
	}
	for want, args := range map[string][]string{"expected one trace": {}, "no such file": {filepath.Join(dir, "none.parquet")}} {
		if code, _, stderr := run(append([]string{"datasets", "fit"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit %d, %s expected %q", args, code, stderr, want)
		}
	}
}
