package cli_test

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

// run runs the command line as a user does.
func run(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Main(all.Table(), args, &out, &err)
	return code, out.String(), err.String()
}

// kvreplay runs a command line and checks its exit code.
func kvreplay(t testing.TB, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := run(args...)
	if got != code {
		t.Fatalf("kvreplay %q exits with %d, expected %d\n%s%s", args, got, code, stdout, stderr)
	}
	return stdout, stderr
}

// must runs a command line that succeeds and returns its stdout.
func must(t testing.TB, args ...string) string {
	t.Helper()
	stdout, _ := kvreplay(t, 0, args...)
	return stdout
}

// says runs a command line and checks its exit code and that stderr has a text.
func says(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, _, stderr := run(args...); got != code || !strings.Contains(stderr, want) {
		t.Errorf("kvreplay %q: exit %d, expected %d; stderr lacks %q:\n%s", args, got, code, want, stderr)
	}
}

// fails is says for a command line that prints nothing on stdout.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, stdout, stderr := run(args...)
	if got != code || stdout != "" || !strings.Contains(stderr, want) {
		t.Errorf("kvreplay %q: exit %d, expected %d; stdout %q; stderr lacks %q:\n%s", args, got, code, stdout, want, stderr)
	}
}

// content returns the text of a file.
func content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	return string(text)
}

// A command leaves no memory behind. A process of tests runs thousands of them.
func TestRunsFreeMemory(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	must(t, "version")
	before := held()
	const runs = 20
	for range runs {
		must(t, "version")
	}
	if grown := int64(held()-before) / runs; grown > 32<<10 {
		t.Errorf("a run leaves %d bytes behind, expected at most 32 KiB", grown)
	}
}
