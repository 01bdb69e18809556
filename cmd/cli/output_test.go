package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
)

// contents returns the files of a folder by name. For anything but a regular file it returns the
// mode.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	fatal.If(t, err)
	found := map[string]string{}
	for _, e := range entries {
		text := []byte(e.Type().String())
		if e.Type().IsRegular() {
			if text, err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		found[e.Name()] = string(text)
	}
	return found
}

// No command overwrites an input or anything but a regular file. The error comes before the work
// with exit code 2, and all files stay unchanged.
func TestOutputsDestroyNothing(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	copied := func(from, to string) {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(at(to), text, 0o644)
		}
		fatal.If(t, err)
	}
	copied(smallTrace(t, small), "t.parquet")
	copied("../../datasets/corpus/selectors_qa_text.retroinfer.parquet", "ranked.parquet")
	copied("../../trace/importer/testdata/news.jsonl.gz", "news.jsonl.gz")
	boardNames := []string{"leaderboard.md", "leaderboard.csv", "leaderboard.json", "curves-t.svg"}
	kept := t.TempDir()
	must(t, "replay", at("t.parquet"), "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--per", "stream", "--out", kept, "--profile")
	for pattern, name := range map[string]string{"*.jsonl": "rows.jsonl", "*.parquet": "p.parquet"} {
		found, _ := filepath.Glob(filepath.Join(kept, pattern))
		copied(found[0], name)
	}
	if code, text, stderr := run("replay", at("t.parquet"), "--policy", "lru", "--policy", "opt", "--capacity", "1x,2x", "--format", "csv"); code != 0 {
		t.Fatal(stderr)
	} else {
		for _, name := range boardNames {
			fatal.If(t, os.WriteFile(at(name), []byte(text), 0o644))
		}
	}
	for name, text := range map[string]string{"e.txt": "Some words.\n", "multi_news.jsonl": "{}\n", "v2.json": "[]\n", "d.yaml": "requests: 2\n"} {
		fatal.If(t, os.WriteFile(at(name), []byte(text), 0o644))
	}
	fatal.If(t, syscall.Mkfifo(at("pipe"), 0o600))
	before := contents(t, dir)
	priced := []string{"time", at("p.parquet"), "--policy", "lru", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest"}
	for _, c := range []struct {
		args  []string // without the output
		flag  string   // flag for the output
		input string
	}{
		{[]string{"derive", at("t.parquet"), "--topk", "4"}, "-o", "t.parquet"},
		{[]string{"import", at("news.jsonl.gz"), "--topk", "256"}, "-o", "news.jsonl.gz"},
		{[]string{"clusters", at("ranked.parquet")}, "-o", "ranked.parquet"},
		{[]string{"allocate", at("rows.jsonl"), "--policy", "lru", "--memory", "1x"}, "-o", "rows.jsonl"},
		{[]string{"allocate", dir, "--policy", "lru", "--memory", "1x"}, "-o", "rows.jsonl"},
		{priced, "--timeline", "p.parquet"},
		{[]string{"datasets", "fit", at("t.parquet")}, "-o", "t.parquet"},
		{[]string{"datasets", "card", at("t.parquet")}, "-o", "t.parquet"},
		{[]string{"datasets", "make", "ruler", "--task", "niah_single_2", "--samples", "1", "--essays", at("e.txt")}, "-o", "e.txt"},
		{[]string{"datasets", "make", "ruler", "--task", "niah_single_2", "--samples", "1", "--essays", dir}, "-o", "e.txt"},
		{[]string{"datasets", "make", "longbench", at("multi_news.jsonl")}, "-o", "multi_news.jsonl"},
		{[]string{"datasets", "make", "longbench", dir}, "-o", "multi_news.jsonl"},
		{[]string{"datasets", "make", "longbench-v2", at("v2.json")}, "-o", "v2.json"},
		{[]string{"datasets", "make", "offline", "--task", "qa_text", "--text", at("e.txt")}, "-o", "e.txt"},
		{[]string{"datasets", "make", "synthetic", "--dials", at("d.yaml")}, "-o", "d.yaml"},
		{[]string{"datasets", "extract", "smollm2_niah_1k_sglang"}, "-o", ""},
	} {
		for _, target := range []string{c.input, "pipe"} {
			if target == "" {
				continue
			}
			args := append(append([]string{}, c.args...), c.flag, at(target))
			want := map[bool]string{true: "is a pipe", false: "also an input"}[target == "pipe"]
			fails(t, 2, want, args...)
			says(t, 2, at(target), args...)
		}
	}
	for _, name := range boardNames {
		says(t, 2, name+" is also an input", "leaderboard", at(name), "--out", dir)
	}
	after := contents(t, dir)
	for name, text := range after {
		if before[name] != text {
			t.Errorf("%s was written or changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files were there, %d are", len(before), len(after))
	}
}

// An output that cannot be written is named, not its temporary file.
func TestOutputErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "t.parquet")
	for _, args := range [][]string{
		{"derive", smallTrace(t, small), "-o", missing},
		{"datasets", "fit", smallTrace(t, small), "-o", missing},
		{"datasets", "extract", "smollm2_niah_1k_sglang", "-o", missing},
	} {
		if _, stderr := kvreplay(t, 1, args...); !strings.Contains(stderr, "cannot write "+missing+": folder ") || strings.Contains(stderr, "/.") {
			t.Errorf("%v: %s", args, stderr)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Output that cannot be written is an error for every writer.
func TestOutputThatFails(t *testing.T) {
	for _, line := range []string{"version", "--version", "--help", "help replay", "replay --help", "policies", "hardware list", "datasets list", "policies describe lru"} {
		var stderr bytes.Buffer
		if code := cli.Main(all.Table(), strings.Fields(line), full{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%s: exit %d, %q", line, code, &stderr)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := run("version")
	if code, got, stderr := run("--version"); code != 0 || got != want || !strings.HasPrefix(got, "kvreplay ") {
		t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, got, stderr, want)
	}
}

// Every spelling of the flag names the output, for commands that write a file and for those that
// write a folder.
func TestOutSpellings(t *testing.T) {
	in := smallTrace(t, small)
	for _, flag := range []string{"-o", "--out", "--output"} {
		dir := t.TempDir()
		if code, _, stderr := run("derive", in, "--layers", "0", flag, filepath.Join(dir, "derived.parquet")); code != 0 {
			t.Errorf("derive %s: %s", flag, stderr)
		}
		if code, _, stderr := run("replay", in, "--policy", "lru", "--capacity", "1x", flag, dir); code != 0 {
			t.Errorf("replay %s: %s", flag, stderr)
		}
		for _, written := range []string{"derived.parquet", "small.rows.jsonl"} {
			if found, _ := filepath.Glob(filepath.Join(dir, written)); len(found) != 1 {
				t.Errorf("%s wrote %v, expected %s", flag, found, written)
			}
		}
	}
}

// Every command that writes a file or folder says so in the same words, also if it replaces one.
func TestWrote(t *testing.T) {
	record := smallTrace(t, small)
	clustered, err := filepath.Abs(clusterTrace)
	fatal.If(t, err)
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"replay RECORD --policy lru,opt --capacity 1x,2x --per request --out rows",
		"replay RECORD --policy lru --capacity 1x,2x,3x --per stream --out streams",
		"allocate streams --memory 2x -o plan.yaml",
		"leaderboard rows --out board",
		"leaderboard rows --format html --out page.html",
		"plot curve rows -o curve.svg",
		"import RECORD -o imported.parquet",
		"derive RECORD --layers 0 -o derived.parquet",
		"clusters CLUSTERED -o clusters.jsonl",
		"batch plan RECORD --policy lru --capacity 1x -o grid.batch",
		"datasets extract smollm2_niah_1k_sglang -o real.parquet",
		"datasets make synthetic --context 4K --topk 64 --layers 1 --steps 4 -o twin.parquet",
		"datasets make ruler --task vt --length 1024 --samples 1 -o prompts.jsonl",
		"datasets fit RECORD -o dials.yaml",
		"datasets card RECORD -o CARD.md",
		"reproduce links --out report",
		"time --prompt 64 --generate 4 --schedule dense --model smollm2-135m --timeline step.json",
	} {
		args := strings.Fields(strings.NewReplacer("RECORD", record, "CLUSTERED", clustered).Replace(line))
		out := args[len(args)-1]
		for _, when := range []string{"new", "replaced"} {
			if code, _, stderr := run(args...); code != 0 || strings.Count(stderr, "kvreplay: wrote "+out) != 1 {
				t.Errorf("%s, %s: exit %d\n%s", line, when, code, stderr)
			}
		}
	}
}

// A typing error in either long spelling is offered that spelling.
func TestOutSlips(t *testing.T) {
	for slip, want := range map[string]string{"--ouput": "--output", "--outt": "--out"} {
		says(t, 2, "did you mean "+want, "derive", "t.parquet", slip, "x.parquet")
	}
}

// Inputs that are read twice must not be pipes. No input may be a device without an end. The error
// states it, and nothing is read.
func TestPipesAndDevices(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo.parquet")
	fatal.If(t, syscall.Mkfifo(fifo, 0o600))
	// held open for writing, so that a command that opens it does not wait forever
	held, err := os.OpenFile(fifo, os.O_RDWR, 0)
	fatal.If(t, err)
	defer held.Close()
	longbench := filepath.Join(t.TempDir(), "longbench")
	hardware := filepath.Join(t.TempDir(), "hardware")
	fatal.If(t, errors.Join(os.Mkdir(longbench, 0o755), os.Mkdir(hardware, 0o755), os.Symlink(fifo, filepath.Join(longbench, "data.zip")), os.Symlink(fifo, filepath.Join(hardware, "mine.yaml"))))
	out := filepath.Join(t.TempDir(), "out")
	priced := []string{"--model", "smollm2-135m"}
	for _, args := range [][]string{
		{"replay", fifo}, {"validate", fifo}, {"inspect", fifo}, {"derive", fifo, "-o", "t.parquet"}, {"import", fifo, "-o", "t.parquet"},
		append([]string{"time", fifo}, priced...), append([]string{"plan", fifo}, priced...),
		{"datasets", "make", "longbench", fifo, "-o", out}, {"hardware", "list", "--hardware-dir", hardware},
	} {
		code, stdout, stderr := run(args...)
		if code != 1 || strings.Contains(stdout+stderr, "empty") || !strings.Contains(stdout+stderr, "is not a regular file and cannot be read twice. Save it to a file first") {
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

// Rows may come through a pipe, also if they are read several times: for rows.parquet, for cells with rows in
// several places, and for errors.
func TestRowsThroughPipe(t *testing.T) {
	dir := t.TempDir()
	file, fifo, out := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "out")
	fatal.If(t, syscall.Mkfifo(fifo, 0o600))
	rows, err := result.ReadRows("../../metrics/testdata/rows.jsonl")
	fatal.If(t, err)
	var sorted, several bytes.Buffer
	fatal.If(t, result.WriteJSONL(&sorted, rows))
	slices.Reverse(rows[:len(rows)/3])
	fatal.If(t, result.WriteJSONL(&several, append(rows[1:], rows[0])))
	for name, text := range map[string]string{"sorted": sorted.String(), "several places": several.String(),
		"error": sorted.String() + "{", "no rows": "\n", "empty": ""} {
		fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
		for _, args := range [][]string{{"leaderboard"}, {"leaderboard", "--out", out}, {"compare", "lru", "fifo"}} {
			wantCode, want, wantErrors := run(append(args, file)...)
			wantParquet, _ := os.ReadFile(filepath.Join(out, "rows.parquet"))
			_ = os.RemoveAll(out)
			go func() { _ = os.WriteFile(fifo, []byte(text), 0) }()
			code, got, stderr := run(append(args, fifo)...)
			parquet, _ := os.ReadFile(filepath.Join(out, "rows.parquet"))
			_ = os.RemoveAll(out)
			if got = strings.ReplaceAll(got, fifo, file); code != wantCode || got != want || !bytes.Equal(parquet, wantParquet) {
				t.Errorf("%s, %v: exit %d, expected %d, or other output: %s", name, args, code, wantCode, stderr)
			}
			if stderr = strings.ReplaceAll(stderr, fifo, file); stderr != wantErrors {
				t.Errorf("%s, %v: %q, expected %q", name, args, stderr, wantErrors)
			}
		}
	}
}
