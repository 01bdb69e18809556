package tracetest

import (
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

// Environment is a virtual environment of Python.
type Environment struct {
	Name         string // of its folder in the user's cache, which the hash of Requirements ends
	Requirements string // path of the file that pins its packages
	Imports      string // what code that runs in it imports, as in "numpy, pyarrow"
}

// made are the outcomes of making each environment, once a process.
var made sync.Map

// Python returns the environment's interpreter; it is made where it is not there. Without
// Python or the packages the test is skipped, unless KVREPLAY_REQUIRE_PYTHON=1.
func Python(t testing.TB, e Environment) (interpreter string) {
	t.Helper()
	once, _ := made.LoadOrStore(e, sync.OnceValues(e.make))
	interpreter, err := once.(func() (string, error))()
	switch {
	case err == nil:
	case os.Getenv("KVREPLAY_REQUIRE_PYTHON") == "1":
		t.Fatalf("KVREPLAY_REQUIRE_PYTHON=1, but: %v", err)
	default:
		t.Skipf("no comparison without Python and its packages (KVREPLAY_REQUIRE_PYTHON=1 makes this an error): %v", err)
	}
	return interpreter
}

// make makes the environment under another name first, so that tests in parallel see it
// whole or not at all.
func (e Environment) make() (string, error) {
	requirements, err := os.ReadFile(e.Requirements)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(requirements)
	final := filepath.Join(cache, "kvreplay", e.Name+"-"+hex.EncodeToString(sum[:6]))
	interpreter := filepath.Join(final, "bin", "python")
	works := func() bool { return exec.Command(interpreter, "-c", "import "+e.Imports).Run() == nil }
	if works() {
		return interpreter, nil
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(filepath.Dir(final), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	if err := e.install(building); err != nil {
		return "", err
	}
	if err := os.Rename(building, final); err != nil && !works() {
		return "", fmt.Errorf("install the environment %s: %w", e.Name, err)
	}
	return interpreter, nil
}

// install fills a folder with Python and the packages.
func (e Environment) install(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", e.Requirements},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
