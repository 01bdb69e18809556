package prompts_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
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
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, r := range rows {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	m := &prompts.Manifest{Generator: "test", Sources: []prompts.Source{{Role: "essays", Name: "e", Digest: "sha256:0", Licence: "MIT"}}}
	if err := w.Close(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.jsonl")
	wrote := write(t, path, full())
	rows, err := prompts.ReadAll(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := full(); !reflect.DeepEqual(rows, want) {
		t.Errorf("read %+v, want %+v", rows, want)
	}
	m, err := prompts.ReadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, wrote) || m.Rows != 2 || m.File != "p.jsonl" {
		t.Errorf("manifest %+v, want %+v", m, wrote)
	}
	if err := m.Verify(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(path); err == nil || !strings.Contains(err.Error(), "make it again") {
		t.Errorf("changed file verified: %v", err)
	}
}

// TestNothingHalfWritten: until Close, and after a refused row or Abort, the folder is
// as it was.
func TestNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.jsonl")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := prompts.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := full()
	if err := w.Write(rows[0]); err != nil {
		t.Fatal(err)
	}
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

const good = `{"index":0,"input":"a","outputs":["b"],"length":3}` + "\n"

func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":            {good + "x\n", ":2: expected a JSON object"},
		"a list":             {"[]\n", ":1: expected a JSON object"},
		"two objects":        {good[:len(good)-1] + good, ":1: expected a JSON object"},
		"cut":                {good + `{"index":1,"inp`, ":2: expected a JSON object"},
		"empty line":         {good + "\n" + good, ":2: empty line"},
		"no input":           {`{"index":0,"outputs":["b"],"length":3}`, `:1: no key "input"`},
		"null outputs":       {`{"index":0,"input":"a","outputs":null,"length":3}`, `:1: no key "outputs"`},
		"no length":          {`{"index":0,"input":"a","outputs":["b"]}`, `:1: no key "length"`},
		"outputs not a list": {`{"index":0,"input":"a","outputs":"b","length":3}`, ":1: json: cannot unmarshal string"},
		"negative length":    {`{"index":0,"input":"a","outputs":["b"],"length":-3}`, ":1: length -3"},
		"no references":      {`{"index":0,"input":"a","outputs":[],"length":3}`, ":1: outputs is empty"},
		"not UTF-8":          {"{\"index\":0,\"input\":\"\xff\",\"outputs\":[\"b\"],\"length\":3}", ":1: not UTF-8"},
		"repeated id":        {strings.Repeat(good[:len(good)-2]+`,"id":"x"}`+"\n", 2), `:2: id "x" is that of line 1`},
		"half a gzip":        {"\x1f\x8b\x08", "the gzip data ends too early"},
		"empty":              {"", "no rows"},
	} {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := prompts.ReadAll(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bad.jsonl") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var bad *prompts.RowError
		if strings.HasPrefix(c.want, ":") && !errors.As(err, &bad) {
			t.Errorf("%s: %T, want a RowError", name, err)
		}
	}
	if _, err := prompts.ReadAll(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// FuzzRows: whatever is read can be written, and reads as the same again.
func FuzzRows(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"index":1,"input":"\ud800","outputs":["",null],"length":0,"token_position_answer":7,"id":"\u0000"}`))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "in.jsonl")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		rows, err := prompts.ReadAll(path)
		if err != nil {
			return
		}
		seen := make(map[string]bool)
		for i, r := range rows {
			if r.ID == "" {
				r.ID = strings.Repeat("#", i+1)
			}
			if seen[r.ID] {
				return
			}
			seen[r.ID] = true
		}
		path = filepath.Join(dir, "out.jsonl")
		write(t, path, rows)
		again, err := prompts.ReadAll(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(rows, again) {
			t.Errorf("wrote %+v, read %+v", rows, again)
		}
	})
}

// A manifest that would take the place of another prompts file's is refused before the work.
func TestManifestOfAnother(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "a.manifest.json")
	for _, name := range []string{"a", "a.manifest.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"file": "a"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := prompts.Create(filepath.Join(dir, "a.jsonl")); err == nil || !strings.Contains(err.Error(), "the manifest of a, ") {
		t.Errorf("error %v", err)
	}
	w, err := prompts.Create(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(manifest, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := prompts.Create(filepath.Join(dir, "a.jsonl")); err == nil || !strings.Contains(err.Error(), "a directory") {
		t.Errorf("error %v", err)
	}
}
