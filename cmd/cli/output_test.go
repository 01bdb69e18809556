package cli_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/policies/all"
)

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Output that cannot be written is an error, whatever writes it.
func TestOutputThatFails(t *testing.T) {
	for _, line := range []string{"version", "--version", "--help", "help replay", "replay --help", "policies", "hardware list", "datasets list", "policies describe lru"} {
		var stderr bytes.Buffer
		if code := cli.Main(all.Table(), strings.Fields(line), full{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit %d, %q", line, code, &stderr)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := run("version")
	if code, got, stderr := run("--version"); code != 0 || got != want || !strings.HasPrefix(got, "kvreplay ") {
		t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, got, stderr, want)
	}
}
