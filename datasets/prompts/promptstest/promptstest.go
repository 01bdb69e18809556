// Package promptstest reads prompts files in tests.
package promptstest

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/gunzip"
)

// Read returns the rows of a file, gzip'ed or not, and its manifest, nil if it has none. A
// row that is not valid or a manifest of other bytes ends the test.
func Read(t testing.TB, path string) (rows []*prompts.Row, m *prompts.Manifest) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	f, err := os.Open(path)
	must(err)
	defer f.Close()
	text, err := gunzip.Reader(f)
	must(err)
	for d := json.NewDecoder(text); ; {
		var r prompts.Row
		err := d.Decode(&r)
		if err == io.EOF {
			break
		}
		must(err)
		must(r.Validate())
		rows = append(rows, &r)
	}
	manifest, err := os.ReadFile(prompts.ManifestPath(path))
	if os.IsNotExist(err) {
		return rows, nil
	}
	must(err)
	must(json.Unmarshal(manifest, &m))
	whole, err := os.ReadFile(path)
	must(err)
	if m.File != filepath.Base(path) || m.Rows != len(rows) || m.Digest != prompts.Digest(whole) {
		t.Fatalf("%s: the manifest is of %s with %d rows and digest %s", path, m.File, m.Rows, m.Digest)
	}
	return rows, m
}
