package kernels_test

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/scripts/capture/capturetest"
)

// Every mode of decode.py writes its rows. predict.py prices them with kvreplay.
func TestDecode(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	t.Setenv("OMP_NUM_THREADS", "1")
	dir := t.TempDir()
	path := filepath.Join(dir, "steps.csv")
	for _, mode := range [][]string{
		{"dense", "--batch", "1,2", "--context", "50", "--parts"},
		{"offloaded", "--batch", "2", "--context", "200", "--topk", "40", "--miss", "0,7", "--parts"},
		{"offloaded", "--context", "200", "--topk", "40", "--miss", "39", "--eager"},
		{"transformers", "--context", "30"},
	} {
		args := append([]string{"decode.py"}, mode...)
		run(t, python, append(append(args, "--steps", "2", "--out", path), tiny...)...)
	}
	text := read(t, path)
	for _, row := range []string{"dense,tiny,cpu,torch-", "dense:attention,", "dense:products,", "offloaded:gather,",
		"2,200,40,28,", "offloaded-eager,", "1,200,40,78,", "transformers,tiny,cpu,torch-"} {
		if !strings.Contains(text, row) {
			t.Errorf("no row with %q:\n%s", row, text)
		}
	}

	program := build(t)
	path = filepath.Join(dir, "known.csv")
	run(t, python, "decode.py", "offloaded", "--model", "smollm2-135m", "--gpu", "cpu", "--device", "cpu", "--kvreplay", program,
		"--context", "200", "--topk", "40", "--miss", "7", "--steps", "1", "--out", path)
	out := run(t, python, "predict.py", path, "--hardware", "h100", "--kvreplay", program)
	if rows := records(t, out); len(rows) != 2 || rows[0][12] != "error_percent" || rows[1][12] == "" {
		t.Errorf("no prediction of one row:\n%s", out)
	}
}

// tiny has all flags of a model's shape.
var tiny = []string{"--model", "tiny", "--gpu", "cpu", "--device", "cpu", "--hidden-size", "64", "--query-heads", "8",
	"--kv-heads", "2", "--head-dim", "16", "--ffn-size", "96", "--vocabulary", "100", "--layers", "2"}

// Triton's interpreter runs the kernels on the CPU. The script compares each with PyTorch.
func TestDecodeKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	t.Setenv("TRITON_INTERPRET", "1")
	t.Setenv("OMP_NUM_THREADS", "1")
	dir := t.TempDir()
	misses := filepath.Join(dir, "misses.csv")
	fatal.If(t, os.WriteFile(misses, []byte("step,layer,misses\n0,0,3\n0,1,0\n1,0,78\n1,1,5\n"), 0o644))
	args := append([]string{"decode.py", "offloaded", "--context", "200", "--topk", "40", "--misses", misses,
		"--out", filepath.Join(dir, "steps.csv")}, tiny...)
	if out := run(t, python, args...); !strings.Contains(out, "Triton's kernels equal PyTorch's") || !strings.Contains(out, "40 21.5 ") {
		t.Errorf("kernels on the CPU:\n%s", out)
	}

	fatal.If(t, os.WriteFile(misses, []byte("step,layer,misses\n0,0,3\n0,1,79\n"), 0o644))
	refuse(t, "79 misses of a layer exceed 78", python, args...)
	fatal.If(t, os.WriteFile(misses, []byte("step,layer,misses\n0,0,3\n"), 0o644))
	refuse(t, "no misses of step 0, layer 1", python, args...)
}

// Ctrl-C keeps the rows so far.
func TestDecodeInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	path := filepath.Join(t.TempDir(), "steps.csv")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"decode.py", "dense", "--batch", strings.Repeat("1,", 50000) + "1",
		"--out", path}, tiny...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	fatal.If(t, cmd.Start())
	for {
		if ctx.Err() != nil {
			t.Fatal("no row in ten minutes")
		}
		if data, err := os.ReadFile(path); err == nil && strings.Count(string(data), "\n") > 1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("Ctrl-C: %v", err)
	}
	if text := read(t, path); !strings.HasSuffix(text, "\n") || strings.Count(text, "\n") < 2 {
		t.Errorf("rows after Ctrl-C:\n%s", text)
	}
}

// A row that no trace can have gets no figures, and the others get theirs. A program may have a relative path.
func TestPredictRows(t *testing.T) {
	if testing.Short() {
		t.Skip("runs kvreplay several times")
	}
	needPython(t)
	script, err := filepath.Abs("predict.py")
	fatal.If(t, err)
	t.Chdir(filepath.Dir(build(t)))
	const rows = "mode,model,device,batch,context,topk,misses\n" +
		"offloaded,smollm2-135m,h100,1,2048,2048,0\n" + // a trace has newer tokens besides
		"offloaded,smollm2-135m,h100,2,2048,1024,1\n" + // of six streams
		"offloaded,smollm2-135m,h100,1,8192,2048,4500\n"
	fatal.If(t, os.WriteFile("rows.csv", []byte(rows), 0o644))
	out, err := exec.CommandContext(t.Context(), "python3", script, "rows.csv", "--hardware", "h100", "--kvreplay", "./kvreplay").Output()
	fatal.If(t, err)
	got := records(t, string(out))
	if len(got) != 4 || got[1][8] != "" || got[2][8] != "" || got[3][8] == "" {
		t.Errorf("predictions\n%s", out)
	}
}

func records(t *testing.T, text string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return rows
}

// refuse runs a command that must fail with a message.
func refuse(t *testing.T, message, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), message) {
		t.Errorf("%v\n%s\nexpected %q", err, out, message)
	}
}
