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
	for _, m := range []struct {
		code int
		want string
		args []string
	}{
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
