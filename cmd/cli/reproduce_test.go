package cli_test

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// replay/REPRODUCTION.md and its figures equal the output of `kvreplay reproduce all --out replay`.
// -update rewrites them.
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
	must(t, "reproduce", "all", "--out", out)
	files, err := filepath.Glob(filepath.Join(out, "reproduction", "*.svg"))
	fatal.If(t, err)
	committed, err := filepath.Glob("replay/reproduction/*.svg")
	if err != nil || len(committed) != len(files) {
		t.Errorf("%d figures are committed, %d are made (%v)", len(committed), len(files), err)
	}
	report, err := os.ReadFile(filepath.Join(out, "REPRODUCTION.md"))
	fatal.If(t, err)
	checkSplit(t, string(report))
	for _, path := range append(files, filepath.Join(out, "REPRODUCTION.md")) {
		name, err := filepath.Rel(out, path)
		fatal.If(t, err)
		made, err := os.ReadFile(path)
		fatal.If(t, err)
		if have, err := os.ReadFile(filepath.Join("replay", name)); err != nil || string(have) != string(made) {
			t.Errorf("replay/%s is not what the program writes now (%v); go test ./cmd/cli -run Reproduction -update rewrites it", name, err)
		}
	}
}

// replay/pipeline/BLIND.md equals the output of `kvreplay reproduce blind`, also with --out. -update
// rewrites it.
func TestBlindIsCurrent(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	out := t.TempDir()
	stdout := must(t, "reproduce", "blind", "--format", "markdown", "--out", out)
	rewritten(t, "replay/pipeline/BLIND.md", stdout, "Blind")
	if written, err := os.ReadDir(out); err != nil || len(written) != 1 || content(t, filepath.Join(out, "BLIND.md")) != stdout {
		t.Errorf("--out wrote %v, expected BLIND.md as printed (%v)", written, err)
	}
}

// Figures of BLIND.md are the output of kvreplay time: the printed 128 output tokens take 128 steps,
// because prefill counts as one.
func TestBlindIsTime(t *testing.T) {
	if testing.Short() {
		t.Skip("prices all blind results again")
	}
	stdout := must(t, "reproduce", "blind", "--section", "vllm", "--format", "csv")
	lines := records(t, stdout)
	if len(lines) != 4 || lines[0]["printed"] != "833.421" || lines[1]["printed"] != "833.421" {
		t.Fatalf("expected the printed 833.421 ms in the first two of four lines:\n%s", stdout)
	}
	for i, kernels := range []string{"roofline", "fitted"} {
		stdout := must(t, "time", "--prompt", "32", "--generate", "128", "--model", "llama-3.1-8b", "--hardware", "h200", "--batch", "8", "--schedule", "dense", "--engine", "vllm-0.6", "--kernels", kernels, "--format", "csv")
		step, err := strconv.ParseFloat(records(t, stdout)[0]["step_mean_s"], 64)
		ours, failed := strconv.ParseFloat(lines[i]["ours"], 64)
		if errors.Join(err, failed) != nil || math.Abs(ours/(128e3*step)-1) > 1e-9 {
			t.Errorf("%s: %g ms, expected 128 steps of %g s (%v)", lines[i]["item"], ours, step, errors.Join(err, failed))
		}
	}
}

// checkSplit compares the README's sentences about the figures of papers with the report's.
func checkSplit(t *testing.T, report string) {
	t.Helper()
	before, rest, ok := strings.Cut(report, "<!-- split -->\n")
	if headline, _, found := strings.Cut(rest, "\n"); ok && found && strings.Count(before, "\n") <= 6 {
		rewrittenPart(t, "README.md", "split", "\n"+headline+"\n\n", "Reproduction")
	} else {
		t.Errorf("the report does not begin with its counts:\n%.500s", report)
	}
}

// The lines "by default" are the output of kvreplay time: the same seconds as the command of the README
// prints, for the same setting and schedule.
func TestReproduceByDefault(t *testing.T) {
	blocks := consoleBlocks(content(t, "../../replay/reproduce/README.md"))
	i := slices.IndexFunc(blocks, func(b block) bool { return strings.HasPrefix(b.commands[0], "kvreplay time ") })
	if i < 0 {
		t.Fatal("replay/reproduce/README.md does not price a line")
	}
	args, err := words(blocks[i].commands[0], "")
	fatal.If(t, err)
	stdout := must(t, append(args[1:], "--format", "csv")...)
	priced := records(t, stdout)[0]
	step, err := strconv.ParseFloat(priced["step_mean_s"], 64)
	fatal.If(t, err)
	stdout = must(t, "reproduce", "kvpr", "--section", "table-4", "--format", "csv")
	rows := records(t, stdout)
	i = slices.IndexFunc(rows, func(r map[string]string) bool {
		return r["item"] == "prompt 512, generation 32, KVPR, by default"
	})
	if i < 0 {
		t.Fatalf("no line is priced by default:\n%s", stdout)
	}
	ours, err := strconv.ParseFloat(rows[i]["ours"], 64)
	if err != nil || math.Abs(ours/(31*step)-1) > 1e-9 || rows[i]["kind"] != "prediction" || rows[i]["printed"] != "29.215" {
		t.Errorf("%v, expected 31 steps of %g s and the printed 29.215 s (%v)", rows[i], step, err)
	}
}

// records returns the lines of a CSV with a header.
func records(t *testing.T, text string) (list []map[string]string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatalf("CSV %q: %v", text, err)
	}
	for _, line := range lines[1:] {
		r := map[string]string{}
		for i, name := range lines[0] {
			r[name] = line[i]
		}
		list = append(list, r)
	}
	return list
}

// Another number of layers breaks the figures that depend on it. The exit code is 1, and stderr
// names them.
func TestReproduceNoticesAConstant(t *testing.T) {
	data, err := os.ReadFile("../../replay/hardware/data/models/llama-3-8b-1048k.yaml")
	fatal.If(t, err)
	changed := strings.Replace(string(data), "layers: 32", "layers: 40", 1)
	if changed == string(data) {
		t.Fatal("the model's file has no 32 layers")
	}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "llama.yaml"), []byte(changed), 0o644))
	args := []string{"reproduce", "kvdrive", "--section", "bytes", "--format", "csv"}
	if code, _, stderr := run(args...); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := run(append(args, "--hardware-dir", dir)...)
	if code != 1 || !strings.Contains(stderr, "miss their gates for no known reason: kvdrive/bytes") || !strings.Contains(stdout, "past its gate") {
		t.Errorf("with more layers: exit code %d, %s", code, stderr)
	}
}

func clearFigures(t *testing.T, folder string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	fatal.If(t, err)
	for _, path := range old {
		fatal.If(t, os.Remove(path))
	}
}

// A folder that cannot hold the report is reported before any computation.
func TestReproduceOut(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "file"), filepath.Join(dir, "taken", "REPRODUCTION.md")
	fatal.If(t, errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(report, 0o755)))
	for out, want := range map[string]string{file: "file is a file, expected a folder", filepath.Join(dir, "taken"): "output " + report + " is a folder"} {
		code, stdout, stderr := run("reproduce", "links", "--out", out)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, expected %q", out, code, stderr, want)
		}
	}
}

func TestReproduceRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"known: ":            {"reproduce", "kvdrve"},
		"did you mean links": {"reproduce", "link"},
		"known: left-out, predicted, constants\n": {"reproduce", "links", "--section", "table-1"},
		"no such file":                       {"reproduce", "kvdrive", "--traces", "missing.parquet"},
		"links has none of the sections":     {"reproduce", "kvdrive", "links", "--section", "fig-20"},
		"no chosen section replays traces":   {"reproduce", "links", "--traces", "../../datasets/bundled"},
		"--traces has no effect":             {"reproduce", "ess", "kvdrive", "--section", "ess/fig-7,fig-20", "--traces", "../../datasets/bundled"},
		"--format with --list has no effect": {"reproduce", "--list", "--format", "csv"},
		"expected table, markdown":           {"reproduce", "links", "--format", "xml"},
	} {
		code, _, stderr := run(args...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
}

// --list prints the sections that can be named, and those that replay traces.
func TestReproduceList(t *testing.T) {
	out := must(t, "reproduce", "kvdrive", "ess", "--list", "--section", "fig-20,fig-2")
	for _, want := range []string{" ess      fig-2    yes     Fig. 2: similarity", " kvdrive  fig-20           Figures 13 and 20"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nexpected %q", out, want)
		}
	}
	if n := strings.Count(out, "\n"); n != 4 {
		t.Errorf("%d lines, expected a head, a rule and two sections:\n%s", n, out)
	}
}
