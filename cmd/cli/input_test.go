package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Inputs that have to be read twice are no pipes, and none is a device without an end;
// the error says so and nothing is read.
func TestPipesAndDevices(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo.parquet")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// held open for writing, so that a command that opens it does not wait for ever
	held, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	longbench := filepath.Join(t.TempDir(), "longbench")
	hardware := filepath.Join(t.TempDir(), "hardware")
	if err := errors.Join(os.Mkdir(longbench, 0o755), os.Mkdir(hardware, 0o755), os.Symlink(fifo, filepath.Join(longbench, "data.zip")), os.Symlink(fifo, filepath.Join(hardware, "mine.yaml"))); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	priced := []string{"--model", "smollm2-135m"}
	for _, args := range [][]string{
		{"replay", fifo}, {"validate", fifo}, {"inspect", fifo}, {"derive", fifo, "-o", "t.parquet"}, {"import", fifo, "-o", "t.parquet"},
		append([]string{"time", fifo}, priced...), append([]string{"plan", fifo}, priced...),
		{"datasets", "make", "longbench", fifo, "-o", out}, {"hardware", "list", "--hardware-dir", hardware},
	} {
		code, stdout, stderr := run(args...)
		if code != 1 || strings.Contains(stdout+stderr, "empty") || !strings.Contains(stdout+stderr, "is not a regular file and cannot be read twice; save it to a file first") {
			t.Errorf("%v: exit %d, %q, %s", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"leaderboard", "/dev/zero"}, {"allocate", "/dev/zero", "--memory", "1x"}, {"hardware", "fit", "/dev/zero"},
		{"datasets", "make", "ruler", "--task", "vt", "--tokenizer", "/dev/zero", "-o", out}, {"datasets", "make", "ruler", "--task", "qa_1", "--squad", "/dev/zero", "-o", out},
		{"datasets", "make", "ruler", "--task", "niah_single_2", "--essays", "/dev/zero", "-o", out}, {"datasets", "make", "offline", "--task", "qa_text", "--text", "/dev/zero", "-o", out},
		{"datasets", "make", "longbench-v2", "/dev/zero", "-o", out}, {"replay", "t.parquet", "--clusters", "/dev/zero"}} {
		if code, _, stderr := run(args...); code == 0 || !strings.Contains(stderr, "/dev/zero is a device") {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// Rows may come through a pipe.
func TestRowsThroughPipe(t *testing.T) {
	code, rows, stderr := run("replay", smallTrace(t, small), "--policy", "lru", "--policy", "opt", "--format", "jsonl")
	if code != 0 {
		t.Fatal(stderr)
	}
	fifo := filepath.Join(t.TempDir(), "rows")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(fifo, []byte(rows), 0) }()
	if code, stdout, stderr := run("leaderboard", fifo); code != 0 || !strings.Contains(stdout, "lru") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
