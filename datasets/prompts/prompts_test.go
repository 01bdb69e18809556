package prompts_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

func position(n int) *int { return &n }

func full() []*prompts.Row {
	return []*prompts.Row{
		{
			Index: 3, Input: "a <b> & \u2028 c", Outputs: []string{"x", "y\n"}, Length: 10, AnswerPrefix: " Answer:", TokenPositionAnswer: position(0),
			Benchmark: "ruler", Task: "vt", ID: "one", MaxLength: 12, MaxNewTokens: 2, ChatTemplate: true, Tokenizer: "t", Seed: 1<<64 - 1, Substitute: "s",
		},
		{Input: "b", Outputs: []string{""}, ID: "two"},
	}
}

func write(t *testing.T, path string, rows []*prompts.Row) *prompts.Manifest {
	t.Helper()
	w, err := prompts.Create(path)
	fatal.If(t, err)
	defer w.Abort()
	for _, r := range rows {
		fatal.If(t, w.Write(r))
	}
	m := &prompts.Manifest{Generator: "test", Sources: []prompts.Source{{Role: "essays", Name: "e", Digest: "sha256:0", Licence: "MIT"}}}
	fatal.If(t, w.Close(m))
	return m
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.jsonl")
	wrote := write(t, path, full())
	rows, m := promptstest.Read(t, path)
	if want := full(); !reflect.DeepEqual(rows, want) {
		t.Errorf("read %+v, want %+v", rows, want)
	}
	if !reflect.DeepEqual(m, wrote) || m.Rows != 2 || m.File != "p.jsonl" {
		t.Errorf("manifest %+v, want %+v", m, wrote)
	}
}

// TestNothingHalfWritten: until Close, and after a refused row or Abort, the folder is
// as it was.
func TestNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.jsonl")
	fatal.If(t, os.WriteFile(path, []byte("old"), 0o644))
	w, err := prompts.Create(path)
	fatal.If(t, err)
	rows := full()
	fatal.If(t, w.Write(rows[0]))
	for name, bad := range map[string]*prompts.Row{
		"repeated id": rows[0],
		"no id":       {Input: "a", Outputs: []string{"b"}},
		"no input":    {ID: "x", Outputs: []string{"b"}},
		"no outputs":  {ID: "x", Input: "a"},
		"not UTF-8":   {ID: "x", Input: "a\xff", Outputs: []string{"b"}},
	} {
		if err := w.Write(bad); err == nil || !strings.Contains(err.Error(), "p.jsonl: row 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.Abort()
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("file now %q", text)
	}
	if w, err = prompts.Create(path); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&prompts.Manifest{}); err == nil {
		t.Error("a file without a prompt was written")
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// A manifest that would take the place of another prompts file's is refused before the work.
func TestManifestOfAnother(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "a.manifest.json")
	for _, name := range []string{"a", "a.manifest.json"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(`{"file": "a"}`), 0o644))
	}
	if _, err := prompts.Create(filepath.Join(dir, "a.jsonl")); err == nil || !strings.Contains(err.Error(), "the manifest of a in the same folder") {
		t.Errorf("error %v", err)
	}
	w, err := prompts.Create(filepath.Join(dir, "a"))
	fatal.If(t, err)
	w.Abort()
	fatal.If(t, os.Remove(manifest))
	fatal.If(t, os.Mkdir(manifest, 0o755))
	if _, err := prompts.Create(filepath.Join(dir, "a.jsonl")); err == nil || !strings.Contains(err.Error(), "a folder") {
		t.Errorf("error %v", err)
	}
}

// Requested tasks have the order of the known ones. A task is requested once, alone or by all.
func TestChooseTasks(t *testing.T) {
	known := []string{"vt", "qa_1", "qa_2"}
	for requested, want := range map[string]string{"": "vt qa_1 qa_2", "all": "vt qa_1 qa_2", "qa_2,VT": "vt qa_2", "qa-1": "qa_1"} {
		var list []string
		if requested != "" {
			list = strings.Split(requested, ",")
		}
		chosen, err := prompts.ChooseTasks("task", list, known)
		fatal.If(t, err)
		if got := strings.Join(chosen, " "); got != want {
			t.Errorf("%q: %s, expected %s", requested, got, want)
		}
	}
	for requested, want := range map[string]string{"vt,all": "task all includes the others", "vt,Vt": "task vt is given twice", "qa": `unknown task "qa"`} {
		if _, err := prompts.ChooseTasks("task", strings.Split(requested, ","), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %q", requested, err, want)
		}
	}
}
