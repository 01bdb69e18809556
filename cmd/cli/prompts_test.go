package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/datasets/offline"
	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

const (
	longbenchRows = "../../datasets/longbench/testdata/multi_news.jsonl.gz"
	longbenchV2   = "../../datasets/longbench/testdata/made_v2.json"
)

func TestMakeLongbench(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "news.jsonl")
	args := []string{"datasets", "make", "longbench", longbenchRows, "-o", path, "--length", "1000", "--samples", "2", "--seed", "0"}
	stdout, stderr := kvreplay(t, 0, args...)
	if stdout != "" || !strings.Contains(stderr, "2 prompts, counted by cl100k_base") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	rows, m := promptstest.Read(t, path)
	if len(rows) != 2 || rows[0].Task != "multi_news" {
		t.Fatalf("%v", rows)
	}
	if got := strings.Join(m.Command, " "); got != "kvreplay datasets make longbench "+longbenchRows+" --length=1000 --samples=2 --seed=0" {
		t.Errorf("command of the manifest: %s", got)
	}
	again := filepath.Join(folder, "again.jsonl")
	args[5] = again
	kvreplay(t, 0, args...)
	if a, b := content(t, path), content(t, again); a != b {
		t.Error("the same command made other prompts")
	}
}

func TestMakeLongbenchV2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v2.jsonl")
	_, stderr := kvreplay(t, 0, "datasets", "make", "longbench-v2", longbenchV2, "-o", path, "--context", "short")
	rows, _ := promptstest.Read(t, path)
	if len(rows) != 2 || !strings.Contains(stderr, "2 prompts") {
		t.Errorf("%v, stderr %q", rows, stderr)
	}
}

// A refused command leaves no file and states the reason.
func TestMakeLongbenchRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"output missing":                {"longbench", longbenchRows},
		"source missing":                {"longbench", "-o", "OUT"},
		"unknown set":                   {"longbench", longbenchRows, "-o", "OUT", "--task", "multinew"},
		"not in the sources":            {"longbench", longbenchRows, "-o", "OUT", "--task", "lcc"},
		"too short for multi_news":      {"longbench", longbenchRows, "-o", "OUT", "--length", "12"},
		"--seed needs --samples":        {"longbench", longbenchRows, "-o", "OUT", "--seed", "1"},
		"--length 0":                    {"longbench", longbenchRows, "-o", "OUT", "--length", "0"},
		"--samples -1":                  {"longbench", longbenchRows, "-o", "OUT", "--samples", "-1"},
		"make longbench-v2`":            {"longbench", longbenchV2, "-o", "OUT"},
		"make longbench`":               {"longbench-v2", longbenchRows, "-o", "OUT"},
		"expected one source":           {"longbench-v2", longbenchV2, longbenchV2, "-o", "OUT"},
		"did you mean easy":             {"longbench-v2", longbenchV2, "-o", "OUT", "--difficulty", "esy"},
		"no question has these domains": {"longbench-v2", longbenchV2, "-o", "OUT", "--context", "long"},
		"not built in":                  {"longbench", longbenchRows, "-o", "OUT", "--tokenizer", "none_base"},
		"no such file or directory":     {"longbench", "no.jsonl", "-o", "OUT"},
		"read LongBench v2: stat no.":   {"longbench-v2", "no.json", "-o", "OUT"},
	} {
		folder := t.TempDir()
		for i := range args {
			args[i] = strings.Replace(args[i], "OUT", filepath.Join(folder, "out.jsonl"), 1)
		}
		code, _, stderr := run(append([]string{"datasets", "make"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q, want %q", args, code, stderr, want)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", args, left, err)
		}
	}
}

func TestMakeRuler(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.jsonl")
	args := []string{"datasets", "make", "ruler", "--task", "niah_single_2, vt", "--length", "1024,2048", "--samples", "2", "--seed", "7", "-o", path}
	stdout, stderr := kvreplay(t, 0, args...)
	if stdout != "" || !strings.Contains(stderr, "8 prompts, counted by cl100k_base") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	rows, m := promptstest.Read(t, path)
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	for i := 0; i < len(rows); i += 2 { // two samples of each task at each length
		a, b := rows[i], rows[i+1]
		span := fmt.Sprintf("%-36s %4d of %s to %s tokens", a.Task, 2, humanize.Comma(int64(min(a.Length, b.Length))), humanize.Comma(int64(max(a.Length, b.Length))))
		if !strings.Contains(stderr, span) {
			t.Errorf("no %q in %s", span, stderr)
		}
	}
	if got := strings.Join(ids, " "); got != "ruler-niah_single_2-1024-0 ruler-niah_single_2-1024-1 ruler-niah_single_2-2048-0 ruler-niah_single_2-2048-1 "+
		"ruler-vt-1024-0 ruler-vt-1024-1 ruler-vt-2048-0 ruler-vt-2048-1" {
		t.Errorf("rows %s", got)
	}
	if m.Seed != 7 || len(m.Tasks) != 4 || len(m.Sources) != 2 || m.Sources[1].Substitute != "Paul Graham's essays" {
		t.Errorf("manifest %+v", m)
	}
	again := filepath.Join(dir, "again.jsonl")
	args[len(args)-1] = again
	kvreplay(t, 0, args...)
	if content(t, path) != content(t, again) {
		t.Error("the same command made another file")
	}
}

// TestMakeRulerRefused checks that a refused command leaves nothing, and that an older file stays.
func TestMakeRulerRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown task": {[]string{"--task", "vtt"}, 2, `unknown task "vtt", did you mean vt?`},
		"too short":    {[]string{"--length", "100"}, 1, "length 100 is too short"},
		"late":         {[]string{"--task", "qa_1", "--squad", "../../datasets/ruler/testdata/squad.json", "--samples", "9", "--length", "512"}, 1, "has 3 questions"},
		"no file":      {[]string{"--essays", "none"}, 1, "read essays: stat none"},
		"tokenizer":    {[]string{"--tokenizer", "o200k_bse"}, 1, "did you mean o200k_base?"},
		"length":       {[]string{"--length", "x"}, 2, "--length"},
		"argument":     {[]string{"vt"}, 2, `unexpected argument "vt"`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "p.jsonl")
		fatal.If(t, os.WriteFile(path, []byte("old"), 0o644))
		fails(t, c.code, c.want, append([]string{"datasets", "make", "ruler", "-o", path}, c.args...)...)
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 || content(t, path) != "old" {
			t.Errorf("%s: left behind %v, %v", name, files, err)
		}
	}
	says(t, 2, "output missing", "datasets", "make", "ruler")
}

const queries = "../../datasets/offline/testdata/queries.txt"

func TestMakeOffline(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "text.jsonl")
	args := []string{"datasets", "make", "offline", "-o", path, "--task", "passage_count_text,summary_text", "--length", "700", "--samples", "2", "--text", queries}
	stdout, stderr := kvreplay(t, 0, args...)
	if stdout != "" || !strings.Contains(stderr, "4 prompts, counted by cl100k_base") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	rows, m := promptstest.Read(t, path)
	if len(rows) != 4 || rows[0].Task != "summary_text" || rows[3].ID != "passage_count_text-1" {
		t.Fatalf("%v", rows)
	}
	if got := strings.Join(m.Command, " "); got != "kvreplay datasets make offline --length=700 --samples=2 --task=passage_count_text --task=summary_text --text="+queries {
		t.Errorf("command of the manifest: %s", got)
	}
	again := filepath.Join(folder, "again.jsonl")
	args[4] = again
	kvreplay(t, 0, args...)
	if content(t, path) != content(t, again) {
		t.Error("the same command made other prompts")
	}
}

// A refused command leaves no file and states the reason.
func TestMakeOfflineRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"output missing":         {},
		"did you mean qa_text":   {"-o", "OUT", "--task", "qa_txt"},
		"--samples 0":            {"-o", "OUT", "--samples", "0"},
		"--length -1":            {"-o", "OUT", "--length", "-1"},
		"length too short":       {"-o", "OUT", "--task", "summary_text", "--length", "513", "--text", queries},
		"has no sources":         {"-o", "OUT", "--goroot", "."},
		"read text: open no.txt": {"-o", "OUT", "--task", "qa_text", "--text", "no.txt"},
		"unexpected argument":    {"-o", "OUT", "novel.txt"},
	} {
		folder := t.TempDir()
		for i := range args {
			args[i] = strings.Replace(args[i], "OUT", filepath.Join(folder, "out.jsonl"), 1)
		}
		code, _, stderr := run(append([]string{"datasets", "make", "offline"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q, want %q", args, code, stderr, want)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", args, left, err)
		}
	}
}

// Every task is in the help and in the document.
func TestOfflineTasksAreDocumented(t *testing.T) {
	help, _ := kvreplay(t, 0, "datasets", "make", "offline", "--help-all")
	readme := content(t, "../../datasets/offline/README.md")
	for _, x := range offline.Tasks() {
		if !strings.Contains(help, "\n  "+x.Name+" ") || !strings.Contains(readme, "`"+x.Name+"`") {
			t.Errorf("%s is not in the help or in the document", x.Name)
		}
	}
}

// Unknown names of tasks and groups are errors of the command line.
func TestUnknownGroups(t *testing.T) {
	out := filepath.Join(t.TempDir(), "p.jsonl")
	says(t, 2, `unknown set "multinew", did you mean multi_news`, "datasets", "make", "longbench", longbenchRows, "-o", out, "--task", "multinew")
	for _, flag := range []string{"domain --task", "difficulty --difficulty", "context --context"} {
		kind, flag, _ := strings.Cut(flag, " ")
		says(t, 2, "unknown "+kind+` "esy"`, "datasets", "make", "longbench-v2", longbenchV2, "-o", out, flag, "esy")
	}
}
