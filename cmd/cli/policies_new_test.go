package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// bundledTrace is a small real trace.
const bundledTrace = "datasets/bundled/smollm2_niah_1k_sglang.parquet"

// A new policy compiles, passes the kit and can be replayed after its line is added to the table.
func TestPoliciesNewWorks(t *testing.T) {
	root, dir := repository(t), t.TempDir()
	copyFile(t, root, dir, "go.mod")
	copyFile(t, root, dir, "policies/all/all.go")
	t.Chdir(dir)
	code, out, errs := run("policies", "new", "my-demo", "--register")
	if code != 0 || !strings.Contains(out, "go test ./policies/mydemo") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	overlay := overlayOf(t, root, dir, "policies/mydemo/mydemo.go", "policies/mydemo/mydemo_test.go", "policies/mydemo/reference_test.go", "policies/all/all.go")
	goTool(t, root, "test", "-c", "-vet=off", "-o", filepath.Join(dir, "mydemo.test"), "-overlay", overlay, "./policies/mydemo")
	if out, err := exec.Command(filepath.Join(dir, "mydemo.test"), "-test.short").CombinedOutput(); err != nil {
		t.Fatalf("the skeleton's test: %v\n%s", err, out)
	}
	rows := goTool(t, root, "run", "-overlay", overlay, "./cmd/kvreplay", "replay", bundledTrace, "--policy", "my-demo", "--policy", "lru", "--capacity", "2x", "--format", "jsonl")
	sameMisses(t, rows, "my-demo", "lru") // the skeleton is LRU
}

// A policy in Python has no name of a module that its package imports, and no keyword.
func TestPoliciesNewPythonNames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(pythonPackage, "kvreplay", "*.py"))
	fatal.If(t, err)
	names := []string{"kvreplay", "select", "class", "lambda", "bisect", "heapq", "uuid", "dateutil", "cython-runtime"}
	for _, file := range append(files, filepath.Join("skeleton", "policy.py.tmpl")) {
		text, err := os.ReadFile(file)
		fatal.If(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:import|from) ([a-z]+)`).FindAllStringSubmatch(string(text)+"\n", -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 20 {
		t.Fatalf("imports: %v", names)
	}
	refusePythonNames(t, names)
}

// refusePythonNames checks that no policy in Python can have these names.
func refusePythonNames(t *testing.T, names []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		want := strings.ReplaceAll(name, "-", "_") + " has another meaning in Python: choose another name"
		if code, _, errs := run("policies", "new", name, "--python", "--dir", dir); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}

// A policy in Python has no name of the standard library, and none of a module that NumPy or the package
// loads.
func TestPoliciesNewPythonModules(t *testing.T) {
	list := exec.Command(withPackage(t), "-c", `
import keyword, sys
site = set(sys.modules)  # what this machine loads at the start of every program
import numpy.random, kvreplay.results
known = sys.stdlib_module_names if sys.version_info < (3, 15) else ()
for name in {*keyword.kwlist, *known, *(m.partition(".")[0] for m in set(sys.modules) - site)}:
    print(name.replace("_", "-"))`)
	out, err := list.Output()
	fatal.If(t, err)
	names := regexp.MustCompile(`(?m)^[a-z][a-z0-9]*(-[a-z0-9]+)*$`).FindAllString(string(out), -1)
	if len(names) < 50 {
		t.Fatalf("names: %v", names)
	}
	refusePythonNames(t, names)
}

// The example of a policy in its own module is the whole program with that policy.
func TestExampleModule(t *testing.T) {
	root := repository(t)
	example := filepath.Join(root, "policies", "example")
	goTool(t, example, "list", "-deps", "-test", "./...") // go.mod and go.sum alone are enough
	goWork(t, root, example, "test", "-short", "./...")
	rows := goWork(t, root, example, "run", ".", "replay", filepath.Join(root, bundledTrace), "--policy", "mru", "--capacity", "2x", "--format", "jsonl")
	if !strings.Contains(rows, `"policy":"mru"`) {
		t.Errorf("no row of mru:\n%s", rows)
	}
}

// An edit of only the example's rule makes the same command count again.
func TestExampleModuleEdited(t *testing.T) {
	root, dir, out := repository(t), t.TempDir(), t.TempDir()
	const file = "policies/example/mru/mru.go"
	copyFile(t, root, dir, file)
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || strings.Count(string(text), "PopHighest") != 1 {
		t.Fatalf("%v: expected one PopHighest to edit in %s", err, file)
	}
	edited := strings.Replace(string(text), "PopHighest", "PopLowest", 1) // LRU
	fatal.If(t, os.WriteFile(filepath.Join(dir, file), []byte(edited), 0o666))
	replay := func(build ...string) (rows, stderr string) {
		program := filepath.Join(t.TempDir(), "example")
		goWork(t, root, filepath.Join(root, "policies", "example"), append(append([]string{"build", "-o", program}, build...), ".")...)
		c := exec.Command(program, "replay", filepath.Join(root, bundledTrace), "--policy", "mru,lru", "--capacity", "1.5x,2x", "--out", out, "--format", "jsonl")
		var errs strings.Builder
		c.Stderr = &errs
		stdout, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		return string(stdout), errs.String()
	}
	if _, stderr := replay(); strings.Contains(stderr, "changed") {
		t.Error(stderr)
	}
	rows, stderr := replay("-overlay", overlayOf(t, root, dir, file))
	if !strings.Contains(stderr, "kvreplay: mru changed since the rows were written: replayed 2 cells again\n") || !strings.Contains(stderr, "(2 cells were already in it)") {
		t.Error(stderr)
	}
	sameMisses(t, rows, "mru", "lru")
}

// A module from `policies new --dir` compiles, including its tests.
func TestPoliciesNewModule(t *testing.T) {
	root, dir := repository(t), filepath.Join(t.TempDir(), "mine")
	if code, _, errs := run("policies", "new", "mine", "--dir", dir); code != 0 {
		t.Fatal(errs)
	}
	modfile := "-modfile=" + moduleFile(t, root, dir)
	goTool(t, dir, "list", "-mod=mod", modfile, "-deps", "-test", "./...")
	goWork(t, root, dir, "vet", "./...")
	if out := goWork(t, root, dir, "run", ".", "policies", "describe", "mine"); !strings.Contains(out, "Package mine evicts") {
		t.Error(out)
	}
	if _, out, _ := run("policies", "new", "other", "--dir", dir); !strings.Contains(out, "kept "+filepath.Join(dir, "main.go")+": add other.Entry to its table") {
		t.Error(out)
	}
}

// repository returns the root. Tests that call the go command are skipped with -short.
func repository(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles a program")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	fatal.If(t, err)
	return root
}

// goTool runs the go command without a network and returns its stdout. With -trimpath it shares
// the compiled packages of make check.
func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return goCommand(t, dir, "off", args...)
}

// goWork is goTool for a module that uses kvreplay from root. They are one workspace, because a
// module that replaces kvreplay compiles all packages of its own.
func goWork(t *testing.T, root, dir string, args ...string) string {
	t.Helper()
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(content(t, filepath.Join(root, "go.mod")))
	file := filepath.Join(t.TempDir(), "go.work")
	fatal.If(t, os.WriteFile(file, fmt.Appendf(nil, "%s\n\nuse %q\nuse %q\n", version, root, dir), 0o666))
	return goCommand(t, dir, file, args...)
}

// goCommand runs the go command with GOWORK=work.
func goCommand(t *testing.T, dir, work string, args ...string) string {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOPROXY=off", "GOWORK="+work)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

func copyFile(t *testing.T, from, to, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, name))
	if err == nil {
		err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o777)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(to, name), text, 0o666)
	}
	fatal.If(t, err)
}

// overlayOf replaces files of the repository by those of dir for the go command.
func overlayOf(t *testing.T, root, dir string, names ...string) string {
	t.Helper()
	replace := map[string]string{}
	for _, name := range names {
		replace[filepath.Join(root, name)] = filepath.Join(dir, name)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o666)
	}
	fatal.If(t, err)
	return file
}

// moduleFile writes a go.mod for the module in dir that uses kvreplay from root. It is in another
// folder, because the go command adds kvreplay's requirements to it.
func moduleFile(t *testing.T, root, dir string) string {
	t.Helper()
	to := t.TempDir()
	copyFile(t, dir, to, "go.mod")
	copyFile(t, root, to, "go.sum")
	file := filepath.Join(to, "go.mod")
	goTool(t, dir, "mod", "edit", "-require", "github.com/kvreplay/kvreplay@v0.0.0", "-replace", "github.com/kvreplay/kvreplay="+root, file)
	return file
}

// sameMisses compares the misses of two policies' rows.
func sameMisses(t *testing.T, rows, a, b string) {
	t.Helper()
	misses := map[string]float64{}
	for line := range strings.Lines(rows) {
		var row map[string]any
		fatal.If(t, json.Unmarshal([]byte(line), &row))
		misses[row["policy"].(string)] = row["misses"].(float64)
	}
	if misses[a] == 0 || misses[a] != misses[b] {
		t.Errorf("misses %v, expected those of %s and %s to be equal", misses, a, b)
	}
}

// A name that is impossible for a package is refused and leaves no folder.
func TestPoliciesNewReserved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	for _, name := range []string{"main", "init", "nil", "true", "len", "string", "str-ing", "type", "func", "policies", "policytest", "all", "lossy", "internal"} {
		says(t, 2, "choose another name", "policies", "new", name, "--dir", dir)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was left")
	}
}

// If a policy could not be registered, the output does not claim that it was.
func TestPoliciesNewUnregistered(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module github.com/kvreplay/kvreplay\n", "policies/all/all.go": "package all\n"} {
		fatal.If(t, os.MkdirAll(filepath.Dir(name), 0o755))
		fatal.If(t, os.WriteFile(name, []byte(text), 0o644))
	}
	code, out, errs := run("policies", "new", "mine", "--register")
	if code != 1 || strings.Contains(out, "added it") || !strings.Contains(out, "mine.Entry") || !strings.Contains(errs, "add the policy by hand") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
