package trace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const interopDir = "../scripts/interop"

// pythonPath makes the interop environment once a process.
var pythonPath = sync.OnceValues(makePython)

// python runs a script in the interop environment and returns its standard output.
// Without Python the test is skipped, unless KVREPLAY_REQUIRE_PYTHON=1.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	path, err := pythonPath()
	if err != nil {
		if os.Getenv("KVREPLAY_REQUIRE_PYTHON") == "1" {
			t.Fatalf("KVREPLAY_REQUIRE_PYTHON=1, but: %v", err)
		}
		t.Skipf("no interoperability test without Python and its packages (KVREPLAY_REQUIRE_PYTHON=1 makes this an error): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python %v: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// makePython returns the interpreter of a virtual environment with the pinned
// requirements. It is kept in the user's cache under the requirements' hash, and made
// under another name first, so that tests in parallel see it whole or not at all.
func makePython() (string, error) {
	requirements, err := os.ReadFile(filepath.Join(interopDir, "requirements.txt"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(requirements)
	parent := filepath.Join(cache, "kvreplay")
	final := filepath.Join(parent, "interop-"+hex.EncodeToString(sum[:6]))
	interpreter := filepath.Join(final, "bin", "python")
	if exec.Command(interpreter, "-c", "import duckdb, numpy, pandas, pyarrow").Run() == nil {
		return interpreter, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(parent, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	if err := installPython(building); err != nil {
		return "", err
	}
	if err := os.Rename(building, final); err != nil && exec.Command(interpreter, "-c", "import pyarrow").Run() != nil {
		return "", fmt.Errorf("install the interop environment: %w", err)
	}
	return interpreter, nil
}

func installPython(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", filepath.Join(interopDir, "requirements.txt")},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
