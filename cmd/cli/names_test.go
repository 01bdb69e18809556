package cli_test

import (
	"path/filepath"
	"testing"
)

// Runs that differ in what their rows depend on keep files of their own in one folder;
// runs that mean the same replace each other, however they are typed.
func TestRunsInOneFolderAddUp(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir() // the trace states sink 2
	for _, more := range [][]string{{}, {"--sink", "2"}, {"--sink", "0"}, {"--warmup", "cold"}, {"--sink", "0", "--seed", "0"}} {
		args := append([]string{"replay", path, "--policy", "lru", "--capacity", "2x", "--out", out}, more...)
		if code, _, stderr := run(args...); code != 0 {
			t.Fatal(stderr)
		}
	}
	files, err := filepath.Glob(filepath.Join(out, "*.jsonl"))
	if err != nil || len(files) != 3 {
		t.Errorf("files %v, %v, expected one each for sink 2, sink 0 and cold", files, err)
	}
}
