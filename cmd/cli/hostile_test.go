package cli_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// hostileCommands produce every kind of output for the traces and rows of a corpus in the current
// folder. They run in the order of the table.
var hostileCommands = []struct {
	name   string
	args   []string
	stdout string // its notation: text, csv, json, jsonl, markdown
}{
	{"rows", []string{"replay", "TRACES", "--policy", "POLICIES", "--capacity", "1.5x,2x", "--per", "request", "--out", "out", "--format", "table"}, "text"},
	{"rows csv", []string{"replay", "TRACES", "--policy", "POLICIES", "--capacity", "1.5x,2x", "--per", "request", "--out", "out", "--format", "csv"}, "csv"},
	{"rows jsonl", []string{"replay", "TRACES", "--policy", "POLICIES", "--capacity", "1.5x,2x", "--per", "request", "--out", "out", "--format", "jsonl"}, "jsonl"},
	{"verify", []string{"leaderboard", "verify", "out", "--traces", "traces", "--sample", "3"}, "text"},
	{"board", []string{"leaderboard", "out", "--per-trace", "--out", "board"}, "text"},
	{"board markdown", []string{"leaderboard", "out", "--format", "markdown", "--per-trace"}, "markdown"},
	{"board csv", []string{"leaderboard", "out", "--format", "csv"}, "csv"},
	{"board json", []string{"leaderboard", "out", "--format", "json"}, "json"},
	{"board page", []string{"leaderboard", "out", "--format", "html"}, "html"},
	{"compare", []string{"compare", "lru", "hostile", "out"}, "text"},
	{"compare markdown", []string{"compare", "lru", "hostile", "out", "--format", "markdown"}, "markdown"},
	{"compare json", []string{"compare", "lru", "hostile", "out", "--format", "json"}, "json"},
	{"card", []string{"datasets", "card", "traces", "-o", "CARD.md"}, "text"},
	{"refused rows", []string{"leaderboard", "out", "--where", "trace==1+1|<b>\u202e"}, "text"},
	{"unknown policy", []string{"replay", "TRACE", "--policy", "\u202e=1<b>"}, "text"},
	{"unknown file", []string{"inspect", "no\u202e.parquet"}, "text"},
	{"inspect", []string{"inspect", "TRACE"}, "text"},
	{"inspect json", []string{"inspect", "TRACE", "--format", "json"}, "json"},
	{"validate", []string{"validate", "TRACE"}, "text"},
	{"profile", []string{"replay", "TRACE", "--policy", "POLICIES", "--capacity", "2x", "--out", "p", "--profile"}, "text"},
	{"rows of streams", []string{"replay", "TRACE", "--policy", "lru", "--capacity", "1x,2x,3x", "--per", "stream", "--out", "streams"}, "text"},
	{"time", []string{"time", "p", "--policy", "hostile", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest", "--timeline", "timeline.json"}, "text"},
	{"time csv", []string{"time", "p", "--policy", "hostile", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest", "--format", "csv"}, "csv"},
	{"time json", []string{"time", "p", "--policy", "hostile", "--capacity", "2x", "--model", "smollm2-135m", "--layer-map", "nearest", "--format", "json"}, "json"},
	{"plan", []string{"plan", "p", "--model", "smollm2-135m", "--layer-map", "nearest", "--max-batch", "2", "--steps", "2"}, "text"},
	{"plan json", []string{"plan", "p", "--model", "smollm2-135m", "--layer-map", "nearest", "--max-batch", "2", "--steps", "2", "--format", "json"}, "json"},
	{"allocate", []string{"allocate", "streams", "--policy", "lru", "--memory", "2x", "-o", "plan.yaml"}, "text"},
	{"allocate json", []string{"allocate", "streams", "--policy", "lru", "--memory", "2x", "--format", "json"}, "json"},
	{"derive", []string{"derive", "TRACE", "--topk", "4", "-o", "derived.parquet"}, "text"},
	{"extents", []string{"hardware", "extents", "TRACE"}, "text"},
	{"fit", []string{"datasets", "fit", "TRACE", "-o", "dials.yaml"}, "text"},
}

// Names of traces, requests, policies and models, and notes, are plain text in every output.
// Nothing is executed or hidden, and no line is forged. Documents have the same structure as with
// plain names. All files are in the named folders.
func TestHostileOutputs(t *testing.T) {
	hostile := hostileNames(result.Printable)
	if testing.Short() {
		hostile = hostile[:len(hostile)/4]
	}
	plain := make([]string, len(hostile))
	for i := range plain {
		plain[i] = "name" + string(rune('a'+i/26)) + string(rune('a'+i%26)) // notes that differ in numbers are merged
	}
	want := hostileRun(t, plain)
	got := hostileRun(t, hostile)
	for name, text := range got {
		switch filepath.Ext(name) {
		case ".markdown", ".md":
			got, want := structure(t, text), structure(t, want[name])
			if i := differ(got, want); want == nil || i < max(len(got), len(want)) {
				t.Errorf("%s has another structure than with plain names, from element %d on: %q, expected %q", name, i, got[min(i, len(got)):min(i+10, len(got))], want[min(i, len(want)):min(i+10, len(want))])
			}
		case ".html":
			if got, want := pageTags(text), pageTags(want[name]); !slices.Equal(got, want) {
				t.Errorf("%s has %d elements other than with plain names, which has %d", name, len(got), len(want))
			}
		case ".svg":
			if tags := elements(t, name, text); !slices.Equal(tags, []string{"g", "path", "rect", "svg", "text", "title"}) && !slices.Equal(tags, []string{"g", "path", "svg", "text", "title"}) {
				t.Errorf("%s has the elements %v", name, tags)
			}
		case ".csv":
			if got, want := csvShape(t, name, text), csvShape(t, name, want[name]); !slices.Equal(got, want) {
				t.Errorf("%s has records of %v cells, expected %v", name, got, want)
			}
		case ".json", ".jsonl":
			checkJSON(t, name, text)
		}
		if slices.Contains([]string{".text", ".stderr", ".markdown", ".md", ".svg", ".html"}, filepath.Ext(name)) {
			if at := strings.IndexFunc(text, obeyedOrHidden); at >= 0 || !utf8.ValidString(text) {
				t.Errorf("%s has %q", name, text[max(0, at-40):min(len(text), at+40)])
			}
			if strings.Contains(text, "\nFORGED") {
				t.Errorf("%s has a forged line:\n%s", name, text)
			}
		}
	}
	rows, err := result.DecodeRows(strings.NewReader(got["rows csv.csv"]), "CSV")
	lines, err2 := result.DecodeRows(strings.NewReader(got["rows jsonl.jsonl"]), "JSON")
	if err := errors.Join(err, err2); err != nil || fmt.Sprint(names(rows)) != fmt.Sprint(names(lines)) {
		t.Errorf("CSV reads back as other rows than JSON: %v", err)
	}
}

// Every command refuses names that rows cannot state, before any work. The message escapes them.
func TestHostileNamesRefused(t *testing.T) {
	for _, name := range hostileNames(func(s string) bool { return !result.Printable(s) }) {
		t.Chdir(t.TempDir())
		hostileTrace(t, "t.parquet", "r", "m")
		path := name + ".parquet"
		fatal.If(t, os.Rename("t.parquet", path))
		for _, args := range [][]string{
			{"replay", path, "--out", "out"}, {"inspect", path}, {"validate", path}, {"datasets", "card", ".", "-o", "CARD.md"}, {"datasets", "card", path, "-o", "CARD.md"},
			{"leaderboard", path}, {"derive", path, "-o", "d.parquet"}, {"replay", "x.parquet", "--out", name}, {"time", path},
		} {
			_, stdout, stderr := run(args...)
			if text := stdout + stderr; strings.IndexFunc(text, obeyedOrHidden) >= 0 || !utf8.ValidString(text) || strings.Contains("\n"+text, "\nFORGED") {
				t.Errorf("%q: %s", args, text)
			}
		}
		files, err := os.ReadDir(".")
		if err != nil || len(files) > 3 { // the trace, and the card of the folder with its plots
			t.Errorf("%q: %v, %v", name, files, err)
		}
	}
}

// hostileNames returns the texts of tracetest.Hostile of a kind that can be file names.
func hostileNames(kind func(string) bool) (names []string) {
	for _, s := range tracetest.Hostile {
		if s != "" && !strings.ContainsAny(s, "/\x00") && len(s) <= 240 && kind(s) {
			names = append(names, s)
		}
	}
	return names
}

// hostileRun writes a corpus with the given names, runs every command on it, and returns all
// outputs: stdout as "name.notation", stderr as "name.stderr", and files.
func hostileRun(t *testing.T, texts []string) map[string]string {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "work[1]*")
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "traces"), 0o755))
	t.Chdir(dir)
	at := func(i int) string { return texts[i%len(texts)] }
	var traces []string
	for i := range texts {
		path := "traces/" + texts[i] + ".parquet"
		writeNamed(t, path, uint64(i), at)
		traces = append(traces, path)
	}
	options := strings.Join(texts[:min(4, len(texts))], "")
	table := policies.NewTable(append(all.Table(), named(options))...)
	printed := map[string]string{}
	for _, c := range hostileCommands {
		var args []string
		for _, arg := range c.args {
			switch arg {
			case "TRACES":
				args = append(args, traces...)
			case "TRACE":
				args = append(args, traces[0])
			case "POLICIES":
				args = append(args, "opt", "--policy", "lru", "--policy", "hostile")
			default:
				args = append(args, arg)
			}
		}
		var out, messages bytes.Buffer
		code := cli.Main(table, args, &out, &messages)
		if failing := strings.HasPrefix(c.name, "un") || strings.HasPrefix(c.name, "refused"); failing != (code != 0) {
			t.Errorf("%s: exit %d: %s", c.name, code, messages.String())
		}
		if c.name == "verify" { // not earlier, because warnings are verified too
			warn(t, "out/*.jsonl", at)
		}
		printed[c.name+"."+c.stdout], printed[c.name+".stderr"] = out.String(), "\n"+messages.String()
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("files outside of the folder: %v, %v", entries, err)
	}
	addFiles(t, printed)
	return printed
}

// warn gives rows warnings of any text.
func warn(t *testing.T, pattern string, at func(int) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for i, path := range paths {
		rows, err := result.ReadRows(path)
		fatal.If(t, err)
		for j := range rows {
			rows[j].Warnings = []string{at(i + j), "line\nFORGED"}
		}
		var text bytes.Buffer
		fatal.If(t, errors.Join(result.WriteJSONL(&text, rows), os.WriteFile(path, text.Bytes(), 0o644)))
	}
}

// plainName matches names without special meaning for a shell, a glob or a file system.
var plainName = regexp.MustCompile(`^[\pL\pM\pN_][\pL\pM\pN._-]{0,254}$`)

// addFiles adds the files below the current folder, except for the traces, whose names are given.
// It expects plain names in the folders that the commands name.
func addFiles(t *testing.T, printed map[string]string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." || path == "traces" || filepath.Dir(path) == "traces" {
			return err
		}
		if top, _, _ := strings.Cut(path, "/"); !slices.Contains([]string{"out", "board", "card", "CARD.md", "p", "streams", "timeline.json", "plan.yaml", "derived.parquet", "dials.yaml"}, top) || !plainName.MatchString(e.Name()) {
			t.Errorf("file %q", path)
		}
		if e.IsDir() || filepath.Ext(path) == ".parquet" {
			return nil
		}
		text, err := os.ReadFile(path)
		printed[path] = string(text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// writeNamed writes a trace of two requests whose metadata are texts from at(seed) on.
func writeNamed(t *testing.T, path string, seed uint64, at func(int) string) {
	t.Helper()
	i := int(seed)
	meta := small.Meta(8)
	meta.Model, meta.Selector, meta.Generator, meta.Decoding, meta.Licence = at(i+3), at(i+4), at(i+5), at(i+6), at(i+7)
	meta.Notes = map[string]string{"part": at(i + 8), "task": at(i + 9), "note" + at(i+10): at(i + 11), "library." + at(i+12): at(i + 13)}
	w, err := trace.Create(path, meta)
	fatal.If(t, err)
	r := rand.New(rand.NewPCG(seed, 1))
	requests := []string{at(i + 1), at(i + 2)}
	slices.Sort(requests)
	for _, request := range requests {
		o := small
		o.Steps = 12
		s := replaytest.Stream(r, o)
		s.Request = request
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
}

// named returns LRU under another name, with options of any text.
func named(options string) policies.Entry {
	table := all.Table()
	e := table[slices.IndexFunc(table, func(e policies.Entry) bool { return e.Name == "lru" })]
	lru := e.New
	e.Name = "hostile"
	e.New = func(string) (func() policies.Policy, string, error) {
		create, _, err := lru("")
		return create, options, err
	}
	return e
}

// obeyedOrHidden reports whether a reader does not see a character unchanged.
func obeyedOrHidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// markdownTag matches a tag of rendered Markdown.
var (
	markdownTag = regexp.MustCompile(`<!--|<[^>]*>`)
)

// structure returns the tags of rendered Markdown, each with the text before it.
func structure(t *testing.T, markdown string) [][2]string {
	t.Helper()
	var out bytes.Buffer
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(html.WithUnsafe()))
	fatal.If(t, parser.Convert([]byte(markdown), &out))
	var tags [][2]string
	text := strings.ReplaceAll(out.String(), "<!-- -->", "") // in mail addresses
	end := 0
	for _, at := range markdownTag.FindAllStringIndex(text, -1) {
		tags = append(tags, [2]string{text[end:at[0]], text[at[0]:at[1]]})
		end = at[1]
	}
	return tags
}

// pageTags returns the tags of a page, without the values of attributes and the content of scripts.
func pageTags(page string) []string {
	page = regexp.MustCompile(`(?s)<script\b[^>]*>.*?</script>`).ReplaceAllString(page, "<script>")
	return markdownTag.FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, ""), -1)
}

// differ returns the first tag in which two structures differ, for any texts.
func differ(a, b [][2]string) int {
	i := 0
	for i < min(len(a), len(b)) && a[i][1] == b[i][1] {
		i++
	}
	return i
}

// elements returns the distinct elements of an SVG, which must be XML without comments.
func elements(t *testing.T, name, text string) (tags []string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			slices.Sort(tags)
			return slices.Compact(tags)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		switch token := token.(type) {
		case xml.StartElement:
			tags = append(tags, token.Name.Local)
		case xml.Comment:
			if strings.Contains(string(token), "name") {
				t.Errorf("%s: a comment %q", name, token)
			}
		}
	}
}

// csvShape returns the number of cells of each line. No cell may be a formula.
func csvShape(t *testing.T, name, text string) (cells []int) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for _, record := range all {
		cells = append(cells, len(record))
		for _, cell := range record {
			if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(cell)[0]) {
				t.Errorf("%s: the cell %q is a formula", name, cell)
			}
		}
	}
	return cells
}

func checkJSON(t *testing.T, name, text string) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		if err := d.Decode(&v); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// names returns the traces, policies and requests of rows.
func names(rows []result.Row) (names [][3]string) {
	for i := range rows {
		names = append(names, [3]string{rows[i].Trace, rows[i].Policy, *rows[i].RequestID})
	}
	return names
}

// Names of files, requests and models must not control a terminal. They are escaped on stdout, on
// stderr and in documents. Data formats carry them unchanged.
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
	fatal.If(t, os.WriteFile(at("rows.jsonl"), []byte(rows), 0o600))
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
	if err != nil || len(documents) != 8 {
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

// obeyed reports whether a terminal would obey the text instead of showing it.
func obeyed(text string) bool { return strings.ContainsAny(text, "\u202e\x1b\x07") }

func hostileTrace(t *testing.T, path, request, model string) {
	t.Helper()
	meta := small.Meta(8)
	meta.Model = model
	if model != "" {
		meta.Notes = map[string]string{model: model}
	}
	w, err := trace.Create(path, meta)
	fatal.If(t, err)
	s := replaytest.Stream(rand.New(rand.NewPCG(1, 1)), small)
	s.Request = request
	fatal.If(t, errors.Join(w.Write(s), w.Close()))
}
