package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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

// readmeRun runs the code of the page in a folder with grid.batch, and merges.
func readmeRun(t *testing.T, words func(shards int) *exec.Cmd) {
	t.Helper()
	path, shards := planBatch(t, everyUnit, deepTrace, "--policy", "lru", "--capacity", "2x")
	dir := filepath.Dir(path)
	if err := os.Rename(path, filepath.Join(dir, "grid.batch")); err != nil {
		t.Fatal(err)
	}
	cmd := words(shards)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program(t))+":"+os.Getenv("PATH"), fmt.Sprintf("SHARDS=%d", shards), "PYTHONPATH="+dir)
	write(t, filepath.Join(dir, "ray.py"), fakeRay)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, "batch", "merge", filepath.Join(dir, "grid.batch"), "--out", filepath.Join(dir, "results"))
}

// fakeRay has the names that the example uses. It calls each function twice, as Ray may.
const fakeRay = `
def init(): pass
def get(calls): return [call() for call in calls for _ in range(2)]
def remote(**options):
    assert options["num_cpus"] == 1
    class Remote:
        def __init__(self, f): self.f = f
        def remote(self, *args): return lambda: self.f(*args)
    return Remote
`

// The command for any scheduler and the example for Ray count all shards.
func TestREADMEOfBatches(t *testing.T) {
	bash, python := codeBlock(t, "Any other scheduler", "sh"), codeBlock(t, "Ray", "python")
	t.Run("any", func(t *testing.T) {
		readmeRun(t, func(int) *exec.Cmd { return exec.Command("bash", "-euo", "pipefail", "-c", bash) })
	})
	t.Run("ray", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("no python3")
		}
		readmeRun(t, func(shards int) *exec.Cmd {
			return exec.Command("python3", "-c", python, "grid.batch", fmt.Sprint(shards))
		})
	})
	path, _ := planBatch(t, "1", newsTrace, "--policy", "lru")
	made := must(t, "batch", "plan", path, "--rate", "3us")
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
