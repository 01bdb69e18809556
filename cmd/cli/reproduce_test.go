package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replay/REPRODUCTION.md and its figures are what `kvreplay reproduce all --out replay`
// writes; -update rewrites them.
func TestReproductionIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("reproduces all papers")
	}
	t.Chdir(filepath.Join("..", ".."))
	out := t.TempDir()
	if *update {
		out = "replay"
		clearFigures(t, filepath.Join(out, "reproduction"))
	}
	if code, _, stderr := run("reproduce", "all", "--out", out); code != 0 {
		t.Fatal(stderr)
	}
	files, err := filepath.Glob(filepath.Join(out, "reproduction", "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob("replay/reproduction/*.svg")
	if err != nil || len(committed) != len(files) {
		t.Errorf("%d figures are committed, %d are made (%v)", len(committed), len(files), err)
	}
	for _, path := range append(files, filepath.Join(out, "REPRODUCTION.md")) {
		name, err := filepath.Rel(out, path)
		if err != nil {
			t.Fatal(err)
		}
		made, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(filepath.Join("replay", name)); err != nil || string(have) != string(made) {
			t.Errorf("replay/%s is not what the program writes now (%v); go test ./cmd/cli -run Reproduction -update rewrites it", name, err)
		}
	}
}

// An entry of another size breaks the figures that rest on it: the exit code is 1, and
// stderr says which.
func TestReproduceNoticesAConstant(t *testing.T) {
	data, err := os.ReadFile("../../replay/hardware/data/models/llama-3-8b-1048k.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), "entry: {value: 4096 B", "entry: {value: 5120 B", 1)
	if changed == string(data) {
		t.Fatal("the model's file has no entry of 4096 B")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "llama.yaml"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"reproduce", "kvdrive", "--section", "bytes", "--traces", "../../datasets/bundled/smollm2_niah_1k_sglang.parquet", "--format", "csv"}
	if code, _, stderr := run(args...); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := run(append(args, "--hardware-dir", dir)...)
	if code != 1 || !strings.Contains(stderr, "past their gates: kvdrive/bytes") || !strings.Contains(stdout, "past its gate") {
		t.Errorf("with an entry of another size: exit code %d, %s", code, stderr)
	}
}

func clearFigures(t *testing.T, folder string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder that takes no report is told before anything is computed.
func TestReproduceOut(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "file"), filepath.Join(dir, "taken", "REPRODUCTION.md")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(report, 0o755)); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{file: "file is a file, expected a folder", filepath.Join(dir, "taken"): "output " + report + " is a directory"} {
		code, stdout, stderr := run("reproduce", "links", "--section", "unknown", "--out", out) // computed, the section is what is wrong
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, expected %q", out, code, stderr, want)
		}
	}
}

func TestReproduceRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"known: ":                  {"reproduce", "kvdrve"},
		"did you mean links":       {"reproduce", "link"},
		"unknown section":          {"reproduce", "links", "--section", "table-1"},
		"known: links/left-out":    {"reproduce", "all", "--section", "links/table-1"}, // no other paper is computed
		"no such file":             {"reproduce", "links", "--traces", "missing.parquet"},
		"expected table, markdown": {"reproduce", "links", "--format", "xml"},
	} {
		code, _, stderr := run(args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
}
