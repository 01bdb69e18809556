package longbench

import (
	"archive/zip"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// excerpt is three real rows of LongBench's multi_news.
const excerpt = "testdata/multi_news.jsonl.gz"

// runes is a tokenizer of one token a character, so that expected cuts can be counted
// by hand.
type runes struct{}

func (runes) Name() string { return "runes" }

func (runes) Encode(text string) (ids []int) {
	for _, r := range text {
		ids = append(ids, int(r))
	}
	return ids
}

func (runes) Decode(ids []int) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		b.WriteRune(rune(id))
	}
	return b.String(), nil
}

func builtin(t testing.TB) tokens.Tokenizer {
	t.Helper()
	tok, err := tokens.Open("")
	fatal.If(t, err)
	return tok
}

func unzipped(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	fatal.If(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	fatal.If(t, err)
	text, err := io.ReadAll(z)
	fatal.If(t, err)
	return string(text)
}

// originals decodes the excerpt by other means than the package's.
func originals(t testing.TB) (rows []map[string]any) {
	t.Helper()
	for line := range strings.Lines(unzipped(t, excerpt)) {
		var row map[string]any
		fatal.If(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// row is a valid row of v1.
func row(id, dataset, context string) string {
	text, _ := json.Marshal(map[string]any{"input": "in", "context": context, "answers": []string{"a"}, "length": 3,
		"dataset": dataset, "language": "en", "all_classes": nil, "_id": id})
	return string(text) + "\n"
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// writeZip writes a zip of files by name.
func writeZip(t testing.TB, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.zip")
	f, err := os.Create(path)
	fatal.If(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		fatal.If(t, err)
	}
	fatal.If(t, z.Close())
	return path
}

// collect makes prompts and returns them.
func collect(o Options, sources ...string) (rows []*prompts.Row, m *prompts.Manifest, err error) {
	m, err = Make(context.Background(), o, sources, func(r *prompts.Row) error {
		rows = append(rows, r)
		return nil
	})
	return rows, m, err
}

func ids(rows []*prompts.Row) (list []string) {
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}
