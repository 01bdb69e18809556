package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// Two releases of a commit have the same bytes. The archive has a program that states its version,
// manual pages and completions. The wheel installs the program and the package.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice")
	}
	t.Chdir(filepath.Join("..", ".."))
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("no clone with git")
	}
	var sums [2]string
	var out string
	for i := range sums {
		out = t.TempDir()
		r := release{out: out, pip: testPip()}
		fatal.If(t, r.run([]string{runtime.GOOS + "/" + runtime.GOARCH}))
		text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		fatal.If(t, err)
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases differ:\n%s%s", sums[0], sums[1])
	}
	var name, wheel string
	for line := range strings.Lines(sums[0]) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if len(sum) != 2*sha256.Size {
			t.Errorf("SHA256SUMS has the line %q", line)
		}
		if strings.HasSuffix(file, ".whl") {
			wheel = filepath.Join(out, file)
		} else {
			name = file
		}
	}
	t.Run("archive", func(t *testing.T) { checkArchive(t, filepath.Join(out, name)) })
	t.Run("wheel", func(t *testing.T) { checkWheel(t, wheel) })
}

// testPip is a pip that builds with the setuptools of its environment, nil without Python.
func testPip() []string {
	python, err := tracetest.PythonPackage(".").Find()
	if err != nil {
		return nil
	}
	return []string{python, "-m", "pip", "--disable-pip-version-check", "--no-input"}
}

func checkArchive(t *testing.T, path string) {
	files := unpack(t, path)
	folder := strings.TrimSuffix(filepath.Base(path), ".tar.gz") + "/"
	for _, want := range []string{"kvreplay", "LICENSE", "README.md", "man/kvreplay-replay.1", "completions/kvreplay.bash"} {
		if len(files[folder+want]) == 0 {
			t.Errorf("the archive lacks %s", want)
		}
	}
	program := filepath.Join(t.TempDir(), "kvreplay")
	fatal.If(t, os.WriteFile(program, files[folder+"kvreplay"], 0o755))
	text, err := exec.Command(program, "version").CombinedOutput()
	version := strings.Split(folder, "_")[1]
	if err != nil || !strings.HasPrefix(strings.Replace(string(text), "version v", "version ", 1), "kvreplay version "+version+"\n") {
		t.Errorf("%v: %s, expected version %s", err, text, version)
	}
	drawn := t.TempDir() // with the fonts of releases
	if text, err := exec.Command(program, "reproduce", "kvpr", "--section", "figures", "--out", drawn).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var figures [2]string
	for i, folder := range []string{"replay", drawn} {
		text, err := os.ReadFile(filepath.Join(folder, "reproduction", "kvpr-fig-12.svg"))
		fatal.If(t, err)
		figures[i] = string(text)
	}
	if figures[0] != figures[1] {
		t.Error("the released program does not draw replay/reproduction/kvpr-fig-12.svg")
	}
}

// session uses the installed package: its program, a replay with a policy in Python, and the plugin.
const session = `
import os, subprocess, sys, tempfile
import kvreplay
assert "site-packages" in kvreplay.__file__, kvreplay.__file__
assert kvreplay.program().startswith(sys.prefix) == (sys.argv[1] == "wheel"), kvreplay.program()
trace, lru = "datasets/bundled/smollm2_niah_1k_sglang.parquet", "scripts/python/examples/lru.py:LRU"
rows = kvreplay.replay(trace, ["lru", lru], ["2x"])
assert rows["misses"][0] == rows["misses"][1] > 0
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kvreplay-policy", os.path.abspath(lru), "-k", "Entry"]
done = subprocess.run(command, cwd=tempfile.mkdtemp(), capture_output=True, text=True)
assert "1 passed" in done.stdout, done.stdout + done.stderr
`

// checkWheel installs a wheel in a fresh virtual environment and uses it. It then installs the folder of
// the package instead, as users of a clone do.
func checkWheel(t *testing.T, wheel string) {
	python := tracetest.Python(t, tracetest.PythonPackage("."))
	if wheel == "" {
		t.Fatal("the release has no wheel")
	}
	t.Setenv("KVREPLAY", "")
	env := filepath.Join(t.TempDir(), "env")
	fresh := filepath.Join(env, "bin", "python")
	others := ""
	execute := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Env = append(os.Environ(), "PYTHONPATH="+others, "PYTHONDONTWRITEBYTECODE=1")
		text, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	// The packages that it depends on are those of the environment of tests.
	others = execute(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
	execute(python, "-m", "venv", env)
	install := []string{"-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-build-isolation", "--force-reinstall", "--no-deps"}
	execute(fresh, append(install, wheel)...)
	execute(fresh, "-c", session, "wheel")
	if text := execute(filepath.Join(env, "bin", "kvreplay"), "version"); !strings.HasPrefix(text, "kvreplay version ") {
		t.Errorf("the program of the wheel prints %q", text)
	}
	t.Setenv("KVREPLAY", filepath.Join(t.TempDir(), "kvreplay"))
	fatal.If(t, os.Rename(filepath.Join(env, "bin", "kvreplay"), os.Getenv("KVREPLAY")))
	clone := filepath.Join(t.TempDir(), "python")
	fatal.If(t, os.CopyFS(clone, os.DirFS(pythonPackage)))
	execute(fresh, append(install, clone)...)
	execute(fresh, "-c", session, "clone")
}

// Versions of wheels are those of git, in the spelling of Python.
func TestWheelVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v0.2.0": "0.2.0", "v0.2.0-dirty": "0.2.0+dirty", "v0.2.0-5-g47af37a8": "0.2.0.post5+47af37a8",
		"v0.2.0-5-g47af37a8-dirty": "0.2.0.post5+47af37a8.dirty", "47af37a8": "0+47af37a8", "1234567": "0+1234567",
	} {
		if got := wheelVersion(described); got != want {
			t.Errorf("%s gives %s, expected %s", described, got, want)
		}
	}
	for target := range strings.SplitSeq(platforms, ",") {
		if wheelTags[target] == "" {
			t.Errorf("%s has no tag of wheels", target)
		}
	}
}

func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	fatal.If(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		fatal.If(t, err)
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The platforms of a release are those that its page names.
func TestPlatforms(t *testing.T) {
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	for target := range strings.SplitSeq(platforms, ",") {
		if !slices.Contains(strings.FieldsFunc(string(text), func(r rune) bool { return r == '`' }), target) {
			t.Errorf("README.md lacks `%s`", target)
		}
	}
	if err := (&release{out: t.TempDir()}).run([]string{"linux"}); err == nil && !testing.Short() {
		t.Error("a platform without architecture was built")
	}
}
