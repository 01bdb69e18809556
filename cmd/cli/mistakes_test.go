package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Mistakes of a newcomer: the exit code tells a wrong command line from bad input, and the message
// says what is wrong once.
func TestMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	fatal.If(t, os.Mkdir("empty", 0o700))
	fatal.If(t, os.Mkdir("traces", 0o700))
	must(t, "datasets", "extract", "smollm2_niah_1k_sglang", "-o", "traces/niah.parquet")
	must(t, "replay", "traces/niah.parquet", "--policy", "lru", "--capacity", "2x", "--out", "results")
	for _, m := range []struct {
		code int
		want string
		args []string
	}{
		{1, "traces/niah.parqet: no such file or directory, did you mean traces/niah.parquet?", []string{"replay", "traces/niah.parqet"}},
		{1, "did you mean traces/niah.parquet?", []string{"inspect", "traces/niha.parquet"}},
		{1, "did you mean results?", []string{"leaderboard", "result"}},
		{1, "is a folder, expected a trace file (*.parquet), such as traces/niah.parquet", []string{"derive", "traces", "-o", "d.parquet"}},
		{1, "(*.parquet), and the folder has none", []string{"replay", "empty"}},
		{2, `option "0" is not name=value, as in calibrate=`, []string{"replay", "traces/niah.parquet", "--policy", "echo:0"}},
		{2, "unknown command \"list\", expected describe, check, new, or `kvreplay policies` alone", []string{"policies", "list"}},
		{2, `unknown policy "nope"`, []string{"policies", "check", "nope"}},
		{2, `--slo "50ms": expected tpot=DURATION`, []string{"serve", "r.csv", "--model", "llama-3-8b", "--slo", "50ms"}},
		{2, `--context "4KiB": expected a number of tokens, as in 32768 or 64K`, []string{"datasets", "make", "synthetic", "--context", "4KiB", "-o", "x.parquet"}},
		{1, "empty has no *.yaml or *.yml", []string{"hardware", "list", "--hardware-dir", "empty"}},
		{1, "empty has no *.yaml or *.yml", []string{"systems", "--list", "--systems-dir", "empty"}},
	} {
		if code, _, stderr := run(m.args...); code != m.code || !strings.Contains(stderr, m.want) {
			t.Errorf("%q: exit %d, expected %d and %q:\n%s", m.args, code, m.code, m.want, stderr)
		}
	}
	defer func(args []string) { os.Args = args }(os.Args)
	os.Args = []string{"kvreplay", "inspect"}
	if code, stdout, stderr := run(); code != 0 || !strings.Contains(stdout, "Usage: kvreplay COMMAND") {
		t.Errorf("Main without arguments reads those of the process: exit %d, %s", code, stderr)
	}
	must(t, "datasets", "make", "synthetic", "--context", "4K", "--topk", "64", "--layers", "1", "--steps", "4", "-o", "x.parquet")
	if text := must(t, "inspect", "x.parquet"); !strings.Contains(text, "4096") && !strings.Contains(text, "4,096") {
		t.Errorf("a context of 4K is not 4096 tokens:\n%s", text)
	}
}
