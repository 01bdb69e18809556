package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
)

func TestMakeRuler(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.jsonl")
	args := []string{"datasets", "make", "ruler", "--task", "niah_single_2, vt", "--length", "1024,2048", "--samples", "2", "--seed", "7", "-o", path}
	stdout, stderr := made(t, args...)
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
	made(t, args...)
	if content(t, path) != content(t, again) {
		t.Error("the same command made another file")
	}
}

// TestMakeRulerRefused: nothing is left behind, and an older file stays.
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
		"argument":     {[]string{"vt"}, 2, "named by --task"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "p.jsonl")
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(append([]string{"datasets", "make", "ruler", "-o", path}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %d and %q", name, code, stdout, stderr, c.code, c.want)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 || content(t, path) != "old" {
			t.Errorf("%s: left behind %v, %v", name, files, err)
		}
	}
	if code, _, stderr := run("datasets", "make", "ruler"); code != 2 || !strings.Contains(stderr, "output missing") {
		t.Errorf("without -o: exit code %d, %s", code, stderr)
	}
}
