package catalogue_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/datasets/bundled"
	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

const root = "../.."

var folder = filepath.Join(root, bundled.Folder)

// The catalogue has all the bundled files. Every file that it calls bundled exists with the bytes
// and the content that it states.
func TestBundled(t *testing.T) {
	known := map[string]bool{}
	for _, e := range catalogue.All() {
		if e.Bundled == "" {
			continue
		}
		checks, err := e.Verify(context.Background(), filepath.Join(root, e.Bundled))
		fatal.If(t, err)
		for _, c := range checks {
			known[c.File] = true
			if c.State != catalogue.Good {
				t.Errorf("%s: %s: %s", c.Path, c.State, c.Problem)
			}
		}
	}
	paths, err := filepath.Glob(filepath.Join(root, "datasets", "*", "*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no bundled traces: %v", err)
	}
	for _, path := range paths {
		if !known[filepath.Base(path)] {
			t.Errorf("%s is bundled, but not in catalogue.yaml", path)
		}
	}
}

// The embedded trace agrees with the catalogue.
func TestEmbedded(t *testing.T) {
	e, err := catalogue.Find(strings.TrimSuffix(bundled.EmbeddedFile, ".parquet"))
	fatal.If(t, err)
	sum := sha256.Sum256(bundled.Embedded)
	if f := e.Files[0]; f.Name != bundled.EmbeddedFile || f.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%s with %x is embedded, the catalogue has %+v", bundled.EmbeddedFile, sum, f)
	}
}

const entry = `- name: a
  kind: trace
  what: a trace
  licence: MIT
  origin: https://example.org/a
  bundled: datasets/bundled
  files:
    - name: a.parquet
      bytes: 3
      sha256: 0000000000000000000000000000000000000000000000000000000000000000
      digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
  make:
    - kvreplay import SRC/a -o a.parquet
`

// Whatever an entry lacks or has too much of is an error that names the entry.
func TestParse(t *testing.T) {
	if entries, err := catalogue.Parse([]byte(entry)); err != nil || len(entries) != 1 || entries[0].Sources == nil {
		t.Fatalf("%+v, %v", entries, err)
	}
	second := strings.NewReplacer("name: a\n", "name: b\n", "a.parquet\n      bytes", "b.parquet\n      bytes").Replace(entry)
	if entries, err := catalogue.Parse([]byte(entry + second)); err != nil || len(entries) != 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	requests := strings.NewReplacer("name: a\n", "name: r\n", "a.parquet\n      bytes", "r.csv\n      bytes", "kind: trace", "kind: requests", "  bundled: datasets/bundled\n", "").Replace(entry)
	for _, c := range []struct{ text, want string }{
		{"a: 3\n", "read catalogue"},
		{strings.Replace(entry, "licence:", "license:", 1), "license"},
		{strings.Replace(entry, "      bytes: 3\n", "      bytes: 3\n      size: 3\n", 1), "size"},
		{strings.Replace(entry, "  what: a trace\n", "  what: a trace\n  what: b\n", 1), "what"},
		{strings.Replace(entry, "name: a\n", "name: A b\n", 1), `entry 1, "A b"`},
		{strings.Replace(entry, "kind: trace", "kind: traces", 1), `kind "traces"`},
		{strings.Replace(entry, "licence: MIT", "licence:", 1), "what, licence and make"},
		{strings.Replace(entry, "  what: a trace\n", "", 1), "what, licence and make"},
		{entry[:strings.Index(entry, "  make:")], "what, licence and make"},
		{strings.Replace(entry, "what: a trace", "what: |-\n    a\n    b", 1), "one line"},
		{strings.Replace(entry, "https:", "http:", 1), "https URL"},
		{strings.Replace(entry, "  bundled: datasets/bundled\n", "", 1), "bundled"},
		{strings.Replace(entry, "bundled: datasets/bundled", "bundled: elsewhere/bundled", 1), "datasets/FOLDER"},
		{strings.Replace(entry, "bytes: 3", "bytes: -3", 1), "bytes: -3"},
		{strings.Replace(entry, "bytes: 3", "bytes: three", 1), "three"},
		{strings.Replace(entry, "sha256: 0", "sha256: z", 1), "64 hexadecimal digits"},
		{strings.Replace(entry, "digest: sha256:0", "digest: md5:0", 1), "digest"},
		{strings.Replace(entry, "name: a.parquet", "name: ../a.parquet", 1), "without a folder"},
		{entry + entry, "unique name"},
		{entry + strings.Replace(entry, "name: a\n", "name: b\n", 1), "both have the file a.parquet"},
		{requests + entry, "kinds in the order"},
		{strings.Replace(entry, "  make:", "  sources:\n    - name: s\n      sha256: 12\n  make:", 1), `source "s"`},
	} {
		if _, err := catalogue.Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q, of\n%s", err, c.want, c.text)
		}
	}
}

// Each of the five states of a file has its message.
func TestVerify(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(folder, bundled.EmbeddedFile))
	fatal.If(t, err)
	e, err := catalogue.Find("smollm2_niah_1k_sglang")
	fatal.If(t, err)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	for want, c := range map[catalogue.State]struct {
		content []byte
		says    string
	}{
		catalogue.Good:      {whole, ""},
		catalogue.Missing:   {nil, "no such file. In a checkout `git checkout"},
		catalogue.Different: {damaged, "not a valid trace"},
		catalogue.Reencoded: {reencoded(t, filepath.Join(folder, bundled.EmbeddedFile)), "the same content"},
	} {
		dir := t.TempDir()
		if c.content != nil {
			fatal.If(t, os.WriteFile(filepath.Join(dir, bundled.EmbeddedFile), c.content, 0o644))
		}
		checks, err := e.Verify(context.Background(), dir)
		if err != nil || len(checks) != 1 || checks[0].State != want || !strings.Contains(checks[0].Problem, c.says) || (want == catalogue.Good) != (checks[0].Problem == "") {
			t.Errorf("%s: %+v, %v", want, checks, err)
		}
	}
	dir := t.TempDir()
	fatal.If(t, os.Mkdir(filepath.Join(dir, bundled.EmbeddedFile), 0o755))
	if checks, err := e.Verify(context.Background(), dir); err != nil || checks[0].State != catalogue.Unreadable {
		t.Errorf("a folder in its place: %+v, %v", checks, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Verify(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// A catalogue whose content digest is wrong for its own bytes is at fault itself.
func TestVerifyFindsTheCatalogueWrong(t *testing.T) {
	e, err := catalogue.Find("smollm2_niah_1k_sglang")
	fatal.If(t, err)
	wrong := *e
	f := e.Files[0]
	f.Digest = "sha256:" + strings.Repeat("0", 64)
	wrong.Files = []catalogue.File{f}
	checks, err := wrong.Verify(context.Background(), folder)
	if err != nil || checks[0].State != catalogue.Different || !strings.Contains(checks[0].Problem, "the catalogue is wrong") {
		t.Errorf("%+v, %v", checks, err)
	}
}

// reencoded is the trace at path as another program would write it.
func reencoded(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	f, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
	fatal.If(t, err)
	options := []parquet.WriterOption{f.Schema(), parquet.CreatedBy("another", "", ""), parquet.PageBufferSize(1 << 14)}
	for _, m := range f.Metadata().KeyValueMetadata {
		options = append(options, parquet.KeyValueMetadata(m.Key, m.Value))
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, options...)
	for _, g := range f.RowGroups() {
		if _, err := w.WriteRowGroup(g); err != nil {
			t.Fatal(err)
		}
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{"ruler/vt": "ruler/vt", "vt": "ruler/vt", "deepseek-v3.2-32k": "synthetic/deepseek-v3.2-32k", "longbench": "longbench"} {
		if e, err := catalogue.Find(name); err != nil || e.Name != want {
			t.Errorf("%s: %v, %v, want %s", name, e, err, want)
		}
	}
	for _, name := range []string{"", "ruler", "v", "ruler/"} {
		if e, err := catalogue.Find(name); err == nil {
			t.Errorf("%q is found as %s", name, e.Name)
		}
	}
}

func TestRenderUnknownFormat(t *testing.T) {
	if err := catalogue.Render(&bytes.Buffer{}, catalogue.All(), "xml"); err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("error %v", err)
	}
}
