package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// codeBlock returns the first block of a language below a heading of replay/batch/README.md.
func codeBlock(t *testing.T, heading, language string) string {
	t.Helper()
	_, text, _ := strings.Cut(content(t, "../../replay/batch/README.md"), "\n## "+heading+"\n")
	_, text, _ = strings.Cut(text, "```"+language+"\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatalf("README.md has no %s block below %q", language, heading)
	}
	return text
}

// readmeRun runs the code of the page in a folder with grid.batch, and merges. The program is in
// the folder bin.
func readmeRun(t *testing.T, bin string, words func(shards int) *exec.Cmd) {
	t.Helper()
	path, shards := planBatch(t, everyChunk, deepTrace, "--policy", "lru", "--capacity", "2x")
	dir := filepath.Dir(path)
	fatal.If(t, os.Rename(path, filepath.Join(dir, "grid.batch")))
	cmd := words(shards)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, "batch", "merge", filepath.Join(dir, "grid.batch"), "--out", filepath.Join(dir, "results"))
}

// A real Ray counts all shards with the example of the page, although one of its workers is killed.
func TestREADMERay(t *testing.T) {
	if testing.Short() {
		t.Skip("installs Ray and starts it")
	}
	python := tracetest.Python(t, tracetest.Environment{Name: "ray", Requirements: "testdata/ray-requirements.txt", Imports: "ray"})
	example, dir := codeBlock(t, "Ray", "python"), t.TempDir()
	killed := filepath.Join(dir, "killed")
	script := fmt.Sprintf("#!/bin/sh\nmkdir '%s' 2>/dev/null && kill -9 $PPID\nexec '%s' \"$@\"\n", killed, program(t))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "kvreplay"), []byte(script), 0o755))
	short, err := os.MkdirTemp("", "ray") // the paths of its sockets are limited
	fatal.If(t, err)
	t.Cleanup(func() { os.RemoveAll(short) })
	readmeRun(t, dir, func(shards int) *exec.Cmd {
		cmd := exec.Command(python, "-c", example, "grid.batch", fmt.Sprint(shards))
		cmd.Env = append(os.Environ(), "RAY_TMPDIR="+short, "RAY_AUTH_MODE=disabled", "RAY_USAGE_STATS_ENABLED=0")
		return cmd
	})
	if _, err := os.Stat(killed); err != nil {
		t.Error("no worker was killed")
	}
}

// The command for any scheduler counts all shards. plan prints the lines of the page.
func TestREADMEOfBatches(t *testing.T) {
	bash := codeBlock(t, "Any other scheduler", "sh")
	readmeRun(t, filepath.Dir(program(t)), func(shards int) *exec.Cmd {
		return exec.Command("bash", "-euo", "pipefail", "-c", strings.Replace(bash, "SHARDS=42", fmt.Sprintf("SHARDS=%d", shards), 1))
	})
	path, _ := planBatch(t, "1", newsTrace, "--policy", "lru")
	made := must(t, "batch", "plan", path, "--rate", "3ns")
	shown := strings.NewReplacer("--array=0-41", "--array=0", "/shared/grid.batch", path).Replace(strings.TrimSpace(codeBlock(t, "Slurm", "sh")))
	if !strings.Contains(made, shown) {
		t.Errorf("plan prints\n%s\nthe page shows %s", made, shown)
	}
	for line := range strings.Lines(codeBlock(t, "Kubernetes", "sh")) {
		shown := strings.NewReplacer("/shared/grid.batch", path, " --image IMAGE", "", "kvreplay-grid", "kvreplay-b").Replace(strings.TrimSpace(line))
		if !strings.Contains(made, shown) {
			t.Errorf("plan prints\n%s\nthe page shows %s", made, shown)
		}
	}
}
