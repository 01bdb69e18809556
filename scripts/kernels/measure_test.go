// Package kernels_test runs the script in this folder on the CPU.
package kernels_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/scripts/capture/capturetest"
)

// A quick run writes rows that kvreplay fits and prices with. A run that was stopped in the middle
// of a row goes on after the last whole one.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	dir := t.TempDir()
	program := build(t)
	path := filepath.Join(dir, "kernels.csv")
	args := []string{"measure.py", "--model", "smollm2-135m", "--gpu", "rtx4090", "--device", "cpu", "--quick",
		"--kvreplay", program, "--out", path}
	run(t, python, args...)
	text := read(t, path)
	lines := strings.SplitAfter(text, "\n")
	for _, operator := range []string{"qkv_proj", "lm_head", "norm", "rope", "sampler", "attention_prefill", "attention_decode"} {
		if !strings.Contains(text, "\n"+operator+",smollm2-135m,rtx4090,torch-") {
			t.Errorf("no row of %s:\n%s", operator, text)
		}
	}

	half := strings.Join(lines[:20], "") + lines[20][:len(lines[20])/2]
	fatal.If(t, os.WriteFile(path, []byte(half), 0o644))
	run(t, python, args...)
	again := read(t, path)
	if !strings.HasPrefix(again, strings.Join(lines[:20], "")) {
		t.Error("a continued run changed rows that were there")
	}
	for i, line := range strings.SplitAfter(again, "\n") {
		if i >= len(lines) || shape(line) != shape(lines[i]) {
			t.Fatalf("line %d of a continued run is %q", i+1, line)
		}
	}

	refused := exec.Command(python, "measure.py", "--model", "deepseek-v2-lite", "--gpu", "rtx4090", "--device", "cpu",
		"--quick", "--kvreplay", program, "--out", path+".moe")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "measures dense models") {
		t.Errorf("a model with latent attention: %v\n%s", err, out)
	}
	if out := run(t, program, "hardware", "fit", path); !strings.Contains(out, "rtx4090") {
		t.Errorf("hardware fit prints\n%s", out)
	}
	run(t, program, "time", "--prompt", "256", "--generate", "4", "--model", "smollm2-135m", "--batch", "4",
		"--schedule", "dense", "--hardware", "rtx4090", "--kernels", path)
}

// The six widths replace kvreplay. One of them alone is an error.
func TestWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	path := filepath.Join(t.TempDir(), "kernels.csv")
	args := []string{"measure.py", "--model", "mine", "--gpu", "mine", "--device", "cpu", "--quick", "--kvreplay", "none",
		"--operators", "rope", "--tensor-parallel", "1,2", "--out", path, "--hidden-size", "64"}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--query-heads is missing") {
		t.Errorf("one width: %v\n%s", err, out)
	}
	run(t, python, append(args, "--query-heads", "4", "--kv-heads", "2", "--head-dim", "16", "--ffn-size", "128",
		"--vocabulary", "256")...)
	if text := read(t, path); strings.Count(text, "rope,mine,mine,") != 6 {
		t.Errorf("not three numbers of tokens on one and two GPUs:\n%s", text)
	}
}

// A quick run writes a file of each path and direction, which kvreplay fits. The script itself compares
// the bytes that it moves.
func TestLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("imports torch")
	}
	python := capturetest.Python(t.Context(), t, "../capture/environment.py")
	if err := exec.CommandContext(t.Context(), python, "-c", "import triton").Run(); err != nil {
		t.Skip("this PyTorch has no Triton")
	}
	dir := t.TempDir()
	program := build(t)
	run(t, python, "links.py", "--device", "cpu", "--quick", "--out", filepath.Join(dir, "links"))
	for path, points := range map[string]int{"call": 3, "batch": 4, "kernel": 4} {
		for _, direction := range []string{"h2d", "d2h"} {
			file := filepath.Join(dir, "links", path+"-"+direction+".csv")
			if n := strings.Count(read(t, file), "\n") - 2; n != points {
				t.Errorf("%s has %d points, expected %d", file, n, points)
			}
			if out := run(t, program, "hardware", "fit", file); !strings.Contains(out, "left out") {
				t.Errorf("hardware fit prints\n%s", out)
			}
		}
	}
	blind := exec.CommandContext(t.Context(), python, "links.py", "--out", dir)
	blind.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=")
	out, err := blind.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "links.py:") || strings.Contains(string(out), "Traceback") {
		t.Errorf("without a GPU: %v\n%s", err, out)
	}
}

// shape is a row without its time.
func shape(line string) string {
	if i := strings.LastIndex(line, ","); i >= 0 {
		return line[:i]
	}
	return line
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	fatal.If(t, err)
	return string(data)
}

// built is the folder of kvreplay, which the tests share, or "" before the first needs it.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// build returns the path of kvreplay. The first test that needs it builds it.
func build(t *testing.T) string {
	t.Helper()
	if built == "" {
		dir, err := os.MkdirTemp("", "kvreplay")
		fatal.If(t, err)
		built = dir
		run(t, "go", "build", "-tags", "minimal", "-o", dir, "../../cmd/kvreplay")
	}
	return filepath.Join(built, "kvreplay")
}

// needPython skips a test without Python.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
}

// run returns the output of a command on both streams. It must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
