package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A number that no input could make right is an error of the command line; an explicit 0
// does not stand for a default.
func TestNumbersOutOfRange(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for want, lines := range map[string][]string{
		"expected at least 1": {
			"replay TRACE --topk 0", "replay TRACE --candidates 0", "replay TRACE --block-tokens 0", "replay TRACE --mtp 0", "replay TRACE --local 0",
			"replay TRACE --entry-bytes 0", "replay TRACE --parallel 0", "serial TRACE --topk 0", "inspect TRACE --topk 0",
			"derive TRACE -o OUT --topk 0", "derive TRACE -o OUT --topk -1", "derive TRACE -o OUT --candidates 0", "derive TRACE -o OUT --block-tokens 0",
			"import TRACE -o OUT --topk 0", "import TRACE -o OUT --topk -1", "import TRACE -o OUT --entry-bytes 0", "import TRACE -o OUT --block-tokens 0",
			"hardware extents TRACE --topk 0", "hardware extents TRACE --entry-bytes 0", "hardware extents TRACE --extent 0",
			"hardware price --entry-bytes 1 --blocks 2 --runs 0", "leaderboard --context 0",
			"time PROFILE --steps 0", "time PROFILE --accept 0", "time PROFILE --accept nan", "time PROFILE --positions 0", "time PROFILE --topk 0", "time PROFILE --context 0",
		},
		"expected more than 0":  {"plan PROFILE --slo 0s"},
		"expected at least 0":   {"replay TRACE --sink -1", "hardware extents TRACE --history -1"},
		"0 to below 1":          {"time PROFILE --reserve 1"},
		"a share above 0":       {"time PROFILE --reserve 0", "plan PROFILE --reserve 0"},
		"share of the reads":    {"time PROFILE --read-ahead 2"},
		"path \"x\", expected":  {"time PROFILE --path x"},
		"unknown task \"nope\"": {"datasets make offline --task nope -o OUT"},
	} {
		for _, line := range lines {
			code, stdout, stderr := run(strings.Fields(strings.NewReplacer("TRACE", newsTrace, "OUT", out).Replace(line))...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit 2 and %q", line, code, stdout, stderr, want)
			}
		}
	}
}

// Bytes are taken with and without a unit, policies as a list and one by one.
func TestUnitsAndLists(t *testing.T) {
	trace := smallTrace(t, small)
	for one, other := range map[string]string{
		"--policy lru --entry-bytes 4096":                              "--policy lru --entry-bytes 4KiB",
		"--policy lru --policy 2q:kin=0.5,kout=0.25 --policy window:2": "--policy lru,2q:kin=0.5,kout=0.25,window:2",
	} {
		_, want, stderr := run(append([]string{"replay", trace, "--format", "csv"}, strings.Fields(one)...)...)
		if code, got, _ := run(append([]string{"replay", trace, "--format", "csv"}, strings.Fields(other)...)...); code != 0 || got != want || got == "" {
			t.Errorf("%s: exit %d, other rows than %s: %s", other, code, one, stderr)
		}
	}
	if code, stdout, stderr := run("hardware", "price", "--entry-bytes", "1KiB", "--blocks", "3"); code != 0 || !strings.Contains(stdout, " 3072 ") {
		t.Errorf("exit %d, %s, %s", code, stdout, stderr)
	}
}
