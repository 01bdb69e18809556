// Package capture_test runs the tests of the Python package in this folder.
package capture_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The tests of the Python package pass. They need its environment. KVREPLAY_REQUIRE_CAPTURE=1 makes
// it (about 3 GB of downloads). Otherwise the test uses it if it exists.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	required := os.Getenv("KVREPLAY_REQUIRE_CAPTURE") == "1"
	args := []string{"environment.py"}
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
		t.Skipf("no test of the capture without its environment (KVREPLAY_REQUIRE_CAPTURE=1 makes it): %v\n%s", err, stderr.Bytes())
	}
	tests := exec.CommandContext(ctx, strings.TrimSpace(string(path)), "-m", "pytest")
	tests.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := tests.CombinedOutput(); err != nil {
		t.Fatalf("pytest: %v\n%s", err, out)
	}
}
