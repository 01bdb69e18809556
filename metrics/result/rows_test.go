package result_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// awkward returns rows with values that a form could lose: nulls, quotes, commas, line breaks in
// warnings, the largest numbers.
func awkward() []result.Row {
	a := rowstest.Row("a, \"b\".parquet", "lru", "", 100)
	a.Warnings = []string{"two\r\nlines, \"quoted\"", "<é>"}
	b := rowstest.Row("b", "opt", "1.5x", 0)
	b.CapacityEntries, b.EntryBytes = rowstest.Ptr(int64(15)), rowstest.Ptr(576)
	b.HostToDeviceBytes, b.DeviceToHostBytes = rowstest.Ptr(int64(0)), rowstest.Ptr(int64(1<<62))
	b.RequestID, b.LayerID, b.Head = rowstest.Ptr("r"), rowstest.Ptr(int32(0)), rowstest.Ptr(int32(0))
	b.Seed, b.ResidentMean, b.ResidentPeak = 1<<64-1, 0.1, 1
	return []result.Row{a, b}
}

func TestRoundTrip(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer, []result.Row) error{
		"JSONL": func(b *bytes.Buffer, rows []result.Row) error { return result.WriteJSONL(b, rows) },
		"CSV":   func(b *bytes.Buffer, rows []result.Row) error { return result.WriteCSV(b, rows) },
	} {
		for _, rows := range [][]result.Row{awkward(), rowstest.Synthetic()} {
			var b bytes.Buffer
			if err := write(&b, rows); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := result.DecodeRows(&b, name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !reflect.DeepEqual(got, rows) {
				t.Errorf("%s: got %+v\nwant %+v", name, got, rows)
			}
		}
	}
}

// line is a valid row as JSON text, with replacements.
func line(t *testing.T, replace ...string) string {
	var b bytes.Buffer
	fatal.If(t, result.WriteJSONL(&b, []result.Row{rowstest.Row("a", "lru", "1x", 40)}))
	text := strings.NewReplacer(replace...).Replace(b.String())
	if len(replace) > 0 && text == b.String() {
		t.Fatalf("%q is not in %s", replace, text)
	}
	return text
}

func TestDecodeIsStrict(t *testing.T) {
	good := line(t)
	for _, c := range []struct{ name, text, want string }{
		{"schema", good + line(t, `"schema":2`, `"schema":1`), "rows:2: row schema 1, this program reads schema 2: replay the trace again"},
		{"no fingerprint", line(t, `"policy_fingerprint":"f-lru"`, `"policy_fingerprint":""`), "rows:1: policy_fingerprint is empty"},
		{"unknown field", line(t, `"misses":`, `"mises":`), `rows:1: unknown field "mises", did you mean misses?`},
		{"other case", line(t, `"misses":`, `"Misses":`), `unknown field "Misses"`},
		{"missing field", line(t, `"misses":40,`, ``), "field misses is missing"},
		{"twice", line(t, `"misses":40`, `"misses":40,"misses":40`), `field "misses" appears twice`},
		{"null", line(t, `"misses":40`, `"misses":null`), "field misses: null"},
		{"sum", line(t, `"misses":40`, `"misses":41`), "hits 60 + misses 41 + lost 0 ≠ demand 100"},
		{"negative", line(t, `"evictions":0`, `"evictions":-1`), "field evictions: -1 is negative"},
		{"mean", line(t, `"demand_mean":10`, `"demand_mean":11`), "demand_mean 11 ≠ demand 100 ÷ steps 10"},
		{"NaN", line(t, `"demand_mean":10`, `"demand_mean":NaN`), "NaN and Infinity are not JSON numbers"},
		{"bytes", line(t, `"entry_bytes":null`, `"entry_bytes":2`), "if and only if entry_bytes is"},
		{"K", line(t, `"topk":10`, `"topk":0`), "topk 0, block_tokens 1, step_tokens 1 and shared_heads 1 must be ≥ 1"},
		{"tier", line(t, `"tier":0`, `"tier":1`), `tier 1 contradicts tiers ""`},
		{"tier below nothing", line(t, `"tiers":""`, `"tiers":"dram=lru@2x"`, `"tier":0`, `"tier":1`), `tier 1 contradicts tiers "dram=lru@2x", above ""`},
		{"mass of an exact policy", line(t, `"covered_mass":null`, `"covered_mass":0.5`), "both need lossy to be true"},
		{"head", line(t, `"head":null`, `"head":2`), "head 2 without layer_id"},
		{"truncated", good + good[:50], "rows:2: the last line has no end: the file is truncated"},
		{"no line end", strings.TrimSpace(good), "rows:1: the last line has no end"},
		{"two objects", strings.TrimSpace(good) + good, "text behind the JSON object"},
		{"blank line", good + "\n" + good, "rows:2: not a JSON object"},
		{"empty", "", "rows:1: the file is empty, expected rows"},
		{"only line ends", "\n\n", "rows:1: the file is empty, expected rows"},
		{"fraction", line(t, `"misses":40`, `"misses":40.5`), "rows:1: field misses: 40.5 is not an integer"},
		{"too large", line(t, `"misses":40`, `"misses":9223372036854775808`), "rows:1: field misses: 9223372036854775808 is not an integer"},
		{"text for a number", line(t, `"misses":40`, `"misses":"40"`), `rows:1: field misses: "40" is not an integer`},
		{"number for a text", line(t, `"lru"`, `7`), "rows:1: field policy: 7 is not a text"},
		{"number for a list", line(t, `"warnings":[]`, `"warnings":7`), "rows:1: field warnings: 7 is not a list of texts"},
		{"not UTF-8", line(t, `"lru"`, "\"l\xff\""), "not UTF-8"},
		{"CSV header", "trace,policy\n", "field schema is missing"},
		{"CSV column", "trace,foo\n", `unknown field "foo"`},
		{"CSV repeated", "trace,trace\n", "field trace appears twice"},
	} {
		rows, err := result.DecodeRows(strings.NewReader(c.text), "rows")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, error %v; want an error with %q", c.name, rows, err, c.want)
		}
		var at *result.RowError
		if !errors.As(err, &at) {
			t.Errorf("%s: error %v names no line", c.name, err)
		}
	}
}

// A change of one digit in a count behind the rankings is found, as VERIFY.md says.
func TestChangedDigitsAreSeen(t *testing.T) {
	good := line(t)
	for _, name := range []string{"hits", "misses", "lost", "demand", "demand_mean", "steps"} {
		_, after, _ := strings.Cut(good, `"`+name+`":`)
		for at := len(good) - len(after); good[at] >= '0' && good[at] <= '9'; at++ {
			for digit := byte('0'); digit <= '9'; digit++ {
				changed := good[:at] + string(digit) + good[at+1:]
				if _, err := result.DecodeRows(strings.NewReader(changed), "rows"); (err == nil) != (changed == good) {
					t.Errorf("%s with the digit %c at byte %d: %v", name, digit, at, err)
				}
			}
		}
	}
}

func TestDecodeCSVIsStrict(t *testing.T) {
	var b bytes.Buffer
	fatal.If(t, result.WriteCSV(&b, []result.Row{rowstest.Row("a", "lru", "1x", 40)}))
	good := b.String()
	for _, c := range []struct{ name, text, want string }{
		{"NaN", strings.Replace(good, "100,10,60,40", "100,NaN,60,40", 1), "rows:2: field demand_mean: NaN is not a number ≥ 0"},
		{"text", strings.Replace(good, "60,40", "60,forty", 1), `rows:2: field misses: "forty" is not an integer`},
		{"sum", strings.Replace(good, "60,40", "60,41", 1), "hits 60 + misses 41"},
		{"truncated", strings.TrimSpace(good), "rows:2: the last line has no end"},
		{"short line", good + "1,a\n", fmt.Sprintf("rows:3: 2 cells, expected %d as in the header", len(result.FieldNames()))},
		{"no rows", strings.SplitAfter(good, "\n")[0], "rows:1: a header without rows: replay again, or leave out the file"},
	} {
		if _, err := result.DecodeRows(strings.NewReader(c.text), "rows"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want one with %q", c.name, err, c.want)
		}
	}
}

func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := result.ReadRows(dir); err == nil || !strings.Contains(err.Error(), "holds no *.jsonl") {
		t.Errorf("empty folder: %v", err)
	}
	for name, text := range map[string]string{"b.jsonl": line(t), "a.jsonl": line(t, `"a"`, `"z"`), "notes.txt": "no rows"} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	rows, err := result.ReadRows(dir)
	if err != nil || len(rows) != 2 || rows[0].Trace != "z" {
		t.Errorf("got %v, %v; want the rows of a.jsonl, then b.jsonl", rows, err)
	}
	if _, err := result.ReadRows(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// FuzzDecodeRows: decoded rows are true, and survive both forms.
func FuzzDecodeRows(f *testing.F) {
	var b bytes.Buffer
	fatal.If(f, errors.Join(result.WriteJSONL(&b, awkward())))
	f.Add(b.Bytes())
	b.Reset()
	fatal.If(f, result.WriteCSV(&b, awkward()))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := result.DecodeRows(bytes.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		var again bytes.Buffer
		fatal.If(t, result.WriteCSV(&again, rows))
		got, err := result.DecodeRows(&again, "again")
		if err != nil || !reflect.DeepEqual(got, rows) {
			t.Fatalf("%v: %+v became %+v", err, rows, got)
		}
	})
}
