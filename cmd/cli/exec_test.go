package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// pythonPackage is the folder of the package kvreplay for Python.
const pythonPackage = "../../scripts/python"

// withPackage returns a Python that has the package and the modules that it imports.
func withPackage(t *testing.T) string {
	t.Helper()
	interpreter := tracetest.Python(t, tracetest.Interop("../.."))
	path, err := filepath.Abs(pythonPackage)
	fatal.If(t, err)
	t.Setenv("PYTHONPATH", path)
	return interpreter
}

// countsOf replays two small traces and returns the rows of each policy without its name.
func countsOf(t *testing.T, policy string) string {
	t.Helper()
	code, out, errs := run("replay", newsTrace, bundledNiah, "--policy", policy, "--capacity", "1.5x,3x", "--format", "jsonl")
	if code != 0 {
		t.Fatalf("%s: %s", policy, errs)
	}
	var misses []string
	for line := range strings.Lines(out) {
		_, counts, _ := strings.Cut(line, `"streams":`)
		misses = append(misses, counts)
	}
	return strings.Join(misses, "")
}

const bundledNiah = "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"

// The examples in Python give the rows of the same policies in Go.
func TestPythonExamples(t *testing.T) {
	python := withPackage(t)
	for _, name := range []string{"lru", "lfu"} {
		if got, want := countsOf(t, "exec:"+python+" "+filepath.Join(pythonPackage, "examples", name+".py")), countsOf(t, name); got != want {
			t.Errorf("%s in Python has the rows\n%s\nexpected\n%s", name, got, want)
		}
	}
}

// The policy that `policies new --python` writes is LRU.
func TestPythonSkeleton(t *testing.T) {
	python, dir := withPackage(t), t.TempDir()
	if code, out, errs := run("policies", "new", "my-policy", "--python", "--dir", dir); code != 0 || !strings.Contains(out, "my_policy.py") {
		t.Fatal(out, errs)
	}
	if got, want := countsOf(t, "exec:"+python+" "+filepath.Join(dir, "my_policy.py")), countsOf(t, "lru"); got != want {
		t.Errorf("the skeleton has the rows\n%s\nexpected\n%s", got, want)
	}
	if code, _, errs := run("policies", "new", "my-policy", "--python", "--dir", dir); code != 2 || !strings.Contains(errs, "exists") {
		t.Errorf("a second time: exit code %d: %s", code, errs)
	}
}

// A policy that breaks the contract fails `policies check` with a stream, over its pipe.
func TestPythonCheck(t *testing.T) {
	python, dir := withPackage(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(pythonPackage, "examples", "lru.py"))
	fatal.If(t, err)
	file := filepath.Join(dir, "few.py")
	write(t, file, strings.ReplaceAll(string(text), "pop(n)", "pop(n)[1:]"))
	code, out, errs := run("policies", "check", "exec:"+python+" "+file, "--seed", "41")
	if code != 1 || !strings.Contains(out, "Legal fails: step 0: policy named 0 victims") || !strings.Contains(out, "repeat with --seed=41") || !strings.Contains(errs, "breaks the contract") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// An error of a policy in Python ends the replay with its traceback and the step.
func TestPythonError(t *testing.T) {
	python, file := withPackage(t), filepath.Join(t.TempDir(), "wrong.py")
	write(t, file, "import kvreplay\nclass Wrong(kvreplay.Policy):\n    def reset(self, scope): print('a print does no harm')\n    def update(self, step): pass\n    def evict(self, n): return [1] * (n // 0)\nkvreplay.serve(Wrong())\n")
	code, out, errs := run("replay", newsTrace, "--policy", "exec:"+python+" "+file, "--capacity", "1x")
	if code != 1 || out != "" || !strings.Contains(errs, "ZeroDivisionError") || !strings.Contains(errs, "step ") || !strings.Contains(errs, "a print does no harm") {
		t.Errorf("exit code %d, %s: %s", code, out, errs)
	}
}

// The tests of the package pass, and mypy finds no fault in it.
func TestPythonPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles kvreplay, runs pytest and mypy")
	}
	t.Parallel()
	python := tracetest.Python(t, tracetest.PythonPackage("../.."))
	path, err := filepath.Abs(pythonPackage)
	fatal.If(t, err)
	for _, args := range [][]string{{"-m", "pytest"}, {"-m", "mypy", "--cache-dir", os.DevNull}} {
		c := exec.Command(python, args...)
		c.Dir, c.Env = pythonPackage, append(os.Environ(), "PYTHONPATH="+path, "KVREPLAY="+program(t), "PYTHONDONTWRITEBYTECODE=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("python %v: %v\n%s", args, err, out)
		}
	}
}

// LRU in C and in Rust gives the rows of LRU in Go.
func TestCompiledExamples(t *testing.T) {
	for source, compiler := range map[string][]string{
		"lru.c":  {"cc", "-O2", "-Wall", "-Werror"},
		"lru.rs": {"rustc", "-O", "-D", "warnings"},
	} {
		t.Run(source, func(t *testing.T) {
			if _, err := exec.LookPath(compiler[0]); err != nil {
				t.Skipf("no %s", compiler[0])
			}
			program := filepath.Join(t.TempDir(), "lru")
			args := append(compiler[1:], "-o", program, "../../policies/external/example/"+source)
			if out, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got, want := countsOf(t, "exec:"+program), countsOf(t, "lru"); got != want {
				t.Errorf("it has the rows\n%s\nexpected\n%s", got, want)
			}
		})
	}
}

// The commands in rows run only if --run-programs allows it.
func TestVerifyRunsNoPrograms(t *testing.T) {
	python, dir := withPackage(t), t.TempDir()
	policy := "exec:" + python + " " + filepath.Join(pythonPackage, "examples", "lru.py")
	if code, _, errs := run("replay", newsTrace, "--policy", policy, "--capacity", "2x", "--out", dir); code != 0 {
		t.Fatal(errs)
	}
	verify := []string{"leaderboard", "verify", dir, "--traces", newsTrace, "--sample", "all"}
	if code, out, errs := run(verify...); code != 1 || !strings.Contains(out, "its program runs only with --run-programs (only for rows that you trust)") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := run(append(verify, "--run-programs")...); code != 0 || !strings.Contains(out, "1 hold") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs := run("replay", newsTrace, "--policy", policy, "--policy", "exec:no-such-program", "--capacity", "2x")
	if code == 0 || !strings.Contains(errs, "the program does not start") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
