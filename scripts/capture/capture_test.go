// Package capture_test runs the tests of the captures of the Python package.
package capture_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/scripts/capture/capturetest"
)

// The tests of the Python package pass. They need its environment.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 19*time.Minute)
	defer cancel()
	python := capturetest.Python(ctx, t, "environment.py")
	program := filepath.Join(t.TempDir(), "kvreplay")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "../../cmd/kvreplay").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tests := exec.CommandContext(ctx, python, "-m", "pytest")
	tests.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "KVREPLAY="+program)
	if out, err := tests.CombinedOutput(); err != nil {
		t.Fatalf("pytest: %v\n%s", err, out)
	}
}
