package cli_test

import (
	"encoding/csv"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// What names of files, requests and models hold, a terminal must not obey: it is written
// out on stdout, stderr and in documents. Data formats carry it as it is.
func TestNamesThatTerminalsObey(t *testing.T) {
	const reversed = "t\u202eqaz"
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hostileTrace(t, at("x\x1b[31m.parquet"), "r\u202e\x1b]0;x\x07\n", "model\u202e\x1b[2J")
	hostileTrace(t, at(reversed+".parquet"), "r\u202e", "model\u202e")
	code, rows, stderr := run("replay", at(reversed+".parquet"), "--policy", "lru,fifo,opt", "--per", "request", "--format", "jsonl")
	if code != 0 || !strings.Contains(rows, reversed) {
		t.Fatalf("exit %d, %s, %s", code, rows, stderr)
	}
	if err := os.WriteFile(at("rows.jsonl"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"inspect", at("x\x1b[31m.parquet")}, {"validate", at("x\x1b[31m.parquet")}, {"replay", at("x\x1b[31m.parquet")}, {"inspect", at("no\x1b[31m")},
		{"derive", at("x\x1b[31m.parquet"), "-o", at("y\x1b[31m.parquet")}, {"replay", at(reversed + ".parquet"), "--policy", "lru,fifo,opt", "--per", "request"},
		{"leaderboard", at("rows.jsonl"), "--per-trace", "--out", at("board")}, {"leaderboard", at("rows.jsonl"), "--format", "markdown"},
		{"compare", "lru", "fifo", at("rows.jsonl")}, {"compare", "lru", "fifo", at("rows.jsonl"), "--format", "markdown"},
		{"compare", "--all", "lru", at("rows.jsonl")}, {"compare", "--all", "lru", at("rows.jsonl"), "--format", "markdown"},
		{"leaderboard", "verify", at("rows.jsonl"), "--traces", at(reversed + ".parquet"), "--sample", "all"},
		{"datasets", "card", at(reversed + ".parquet"), "-o", at("CARD.md")},
	} {
		if _, stdout, stderr := run(args...); obeyed(stdout) || obeyed(stderr) || stdout+stderr == "" {
			t.Errorf("%q: %q, %q", args, stdout, stderr)
		}
	}
	documents, err := filepath.Glob(at("board/*"))
	if err != nil || len(documents) != 5 {
		t.Fatal(documents, err)
	}
	for _, file := range append(documents, at("CARD.md")) {
		text, err := os.ReadFile(file)
		data := strings.HasSuffix(file, ".csv") || strings.HasSuffix(file, ".json") || strings.HasSuffix(file, ".parquet")
		if err != nil || obeyed(string(text)) != data {
			t.Errorf("%s: %v: %s", file, err, text)
		}
	}
	_, text, _ := run("replay", at(reversed+".parquet"), "--policy", "lru", "--capacity", "2x", "--format", "csv")
	if records, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || records[1][1] != reversed+".parquet" {
		t.Errorf("CSV: %v, %q", err, records)
	}
}

// obeyed reports whether a terminal would do something else than to show the text.
func obeyed(text string) bool { return strings.ContainsAny(text, "\u202e\x1b\x07") }

func hostileTrace(t *testing.T, path, request, model string) {
	t.Helper()
	meta := small.Meta(8)
	meta.Model = model
	if model != "" {
		meta.Notes = map[string]string{model: model}
	}
	w, err := trace.Create(path, meta)
	if err != nil {
		t.Fatal(err)
	}
	s := replaytest.Stream(rand.New(rand.NewPCG(1, 1)), small)
	s.Request = request
	if err := errors.Join(w.Write(s), w.Close()); err != nil {
		t.Fatal(err)
	}
}
