package cli_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Memory does not grow with the trace: a trace four times as large is replayed in the
// same memory. scripts/flatmem.sh does it with 10 GB.
func TestFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	bin := program(t)
	peak := func(layers int) int64 { // of 256 rows of 2560 indices: 1.4 MB each
		path := filepath.Join(t.TempDir(), "synthetic.parquet")
		if out, err := exec.Command(bin, "datasets", "make", "synthetic", "--preset", "deepseek-v3.2-32k", "--steps", "224", "--layers", strconv.Itoa(layers), "-o", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(bin, "replay", path, "--policy", "lru", "--policy", "opt", "--capacity", "2x", "--parallel", "2")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	}
	small, large := peak(15), peak(60)
	t.Logf("20 MB: %d MiB resident, 81 MB: %d MiB", small, large)
	if large > small+40 {
		t.Errorf("replaying 20 MB takes %d MiB, 81 MB takes %d MiB, expected about the same", small, large)
	}
}
