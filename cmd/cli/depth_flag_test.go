package cli_test

import (
	"strings"
	"testing"
)

// Commands that price drives take the reads in flight by one name, with one default, and by
// the name that some of them had.
func TestDepthFlag(t *testing.T) {
	for _, command := range []string{"hardware price", "hardware extents", "time", "plan"} {
		_, help, _ := run(append(strings.Fields(command), "--help")...)
		_, line, found := strings.Cut(help, "--ssd-depth int")
		line, _, _ = strings.Cut(line, "\n")
		if !found || !strings.HasSuffix(line, "(default 64)") {
			t.Errorf("%s: --ssd-depth%s", command, line)
		}
	}
	price := func(flags ...string) string {
		t.Helper()
		code, out, stderr := run(append([]string{"hardware", "price", "--entry-bytes", "656", "--blocks", "2048", "--format", "json"}, flags...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		return out
	}
	usual, few := price(), price("--depth", "2")
	if usual != price("--ssd-depth", "64") || few != price("--ssd-depth", "2") || usual == few {
		t.Error("the two spellings price otherwise, or the depth changes nothing")
	}
}
