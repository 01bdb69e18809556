package result_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// canonicalLines returns lines of WriteJSONL, from rows without escapes in their names.
func canonicalLines(t testing.TB) [][]byte {
	rows := append(rowstest.Synthetic(), awkward()[1])
	rows[0].Warnings = []string{"two\nlines, \"quoted\"} é", "]"}
	var b bytes.Buffer
	fatal.If(t, result.WriteJSONL(&b, rows))
	return bytes.SplitAfter(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n"))
}

// TestCanonicalLinesAreRead: the fast decoder accepts every canonical line.
func TestCanonicalLinesAreRead(t *testing.T) {
	lines := canonicalLines(t)
	for i, line := range lines[:len(lines)-1] {
		if _, ok := result.DecodeCanonical(line); !ok {
			t.Errorf("line %d is not read: %s", i+1, line)
		}
	}
	if row, ok := result.DecodeCanonical(lines[len(lines)-1]); ok {
		t.Errorf("a line without its end is read: %+v", row)
	}
}

// sameAsObject compares the fast decoder with decodeObject, which reads token by token. A row that
// the first accepts must be true and equal to the second's. Lines before the last must not matter.
func sameAsObject(t *testing.T, from string, lines ...[]byte) {
	line := lines[len(lines)-1]
	row, ok := result.DecodeCanonical(line)
	after, also := result.DecodeCanonical(lines...)
	if ok != also || ok && !reflect.DeepEqual(row, after) {
		t.Fatalf("%s: %s: alone %v %+v, after other lines %v %+v", from, line, ok, row, also, after)
	}
	if !ok {
		return
	}
	want, err := result.DecodeObject(line)
	if wrong := row.Check(); (wrong == nil) != (err == nil) {
		t.Fatalf("%s: %s: %v, read token by token %v", from, line, wrong, err)
	}
	if err == nil && !reflect.DeepEqual(row, want) {
		t.Fatalf("%s: %s: %+v, read token by token %+v", from, line, row, want)
	}
}

// pieces are the texts that a line is changed by.
var pieces = []string{
	`"`, `\`, `,`, `:`, `{`, `}`, `[`, `]`, ` `, "\n", "\r", "\x00", "\xff", "0", "-", "-0", "1e3", "1.0", ".5", "007", "+1", "1_0", "0x10", "1e999", "99999999999", "true", "null", `""`, `"a"`, `"\u0041"`, `"a\"b"`, "\"\xff\"", "[\"\xff\"]", `"1x"`, `"01x"`,
	`[]`, `[""]`, `[null]`, `["\u00e9"]`, `\u0041`, `\"`, `NaN`, `Inf`, `"schema":2,`, `,"misses":40`, `"warnings":[]`, `"Misses":`,
}

func TestCanonicalLinesAreReadAsObjects(t *testing.T) {
	lines := canonicalLines(t)
	line := string(lines[0])
	for i := range result.Openings { // each field has each piece as its value
		opening := string(result.Openings[i])
		before, after, _ := strings.Cut(line, opening)
		for _, piece := range pieces {
			n := strings.LastIndexByte(after, '}')
			if i+1 < len(result.Openings) {
				n = strings.Index(after, string(result.Openings[i+1]))
			}
			changed := []byte(before + opening + piece + after[n:])
			sameAsObject(t, opening, lines[0], changed)
			sameAsObject(t, opening, changed, lines[0])
		}
	}
	for seed := range uint64(2000) { // pieces anywhere
		r := rand.New(rand.NewPCG(seed, 1))
		from := r.IntN(len(lines))
		line := string(lines[from])
		for range 1 + r.IntN(2) {
			at := r.IntN(len(line))
			line = line[:at] + pieces[r.IntN(len(pieces))] + line[min(len(line), at+r.IntN(3)):]
		}
		sameAsObject(t, fmt.Sprintf("seed %d", seed), lines[r.IntN(len(lines))], lines[from], []byte(line))
	}
}

// FuzzCanonicalLine is TestCanonicalLinesAreReadAsObjects for any text.
func FuzzCanonicalLine(f *testing.F) {
	lines := canonicalLines(f)
	f.Add(lines[0])
	f.Add(lines[len(lines)-1])
	f.Fuzz(func(t *testing.T, line []byte) { sameAsObject(t, "fuzz", lines[0], line) })
}

// TestReadTextsAreShared: a text that many rows have is in memory once, in any file form.
func TestReadTextsAreShared(t *testing.T) {
	var jsonl, csv bytes.Buffer
	rows := awkward()
	rows = append(rows, rows...)
	fatal.If(t, result.WriteJSONL(&jsonl, rows))
	fatal.If(t, result.WriteCSV(&csv, rows))
	for form, text := range map[string]*bytes.Buffer{"JSON lines": &jsonl, "CSV": &csv} {
		got, err := result.DecodeRows(text, form)
		fatal.If(t, err)
		for what, pair := range map[string][2]string{
			"trace": {got[0].Trace, got[2].Trace}, "request_id": {*got[1].RequestID, *got[3].RequestID}, "warnings": {got[0].Warnings[1], got[2].Warnings[1]},
		} {
			if unsafe.StringData(pair[0]) != unsafe.StringData(pair[1]) {
				t.Errorf("%s: %s %q is there twice", form, what, pair[0])
			}
		}
	}
}

// TestLongLines: lines may be longer than the reader's buffer, and the error of a truncated one has
// its line.
func TestLongLines(t *testing.T) {
	rows := rowstest.Synthetic()[:3]
	rows[1].Warnings = []string{strings.Repeat("long ", 50_000)}
	var b bytes.Buffer
	fatal.If(t, result.WriteJSONL(&b, rows))
	text := b.Bytes()
	got, err := result.DecodeRows(bytes.NewReader(text), "rows")
	if err != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("%d rows, %v, want the rows that were written", len(got), err)
	}
	for cut, want := range map[int]string{len(text) / 2: "rows:2", len(text) - 1: "rows:3"} {
		if _, err := result.DecodeRows(bytes.NewReader(text[:cut]), "rows"); err == nil || !strings.Contains(err.Error(), want+": the last line has no end") {
			t.Errorf("%d of %d bytes: %v, want an error at %s", cut, len(text), err, want)
		}
	}
}
