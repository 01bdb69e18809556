// Package capturetest finds the Python environment of the capture for tests.
package capturetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Python returns the interpreter of the environment. script is the path of environment.py.
// KVREPLAY_REQUIRE_CAPTURE=1 makes the environment (about 3 GB of downloads). Otherwise the test is
// skipped without it.
func Python(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	args := []string{script}
	required := os.Getenv("KVREPLAY_REQUIRE_CAPTURE") == "1"
	if required {
		args = append(args, "--install")
	}
	var stderr bytes.Buffer
	find := exec.CommandContext(ctx, "python3", args...)
	find.Stderr = &stderr
	path, err := find.Output()
	switch {
	case err != nil && required:
		t.Fatalf("KVREPLAY_REQUIRE_CAPTURE=1, but: %v\n%s", err, stderr.Bytes())
	case err != nil:
		t.Skipf("no test without the capture's environment (KVREPLAY_REQUIRE_CAPTURE=1 makes it): %v\n%s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(path))
}
