package trace_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// interopSample writes a file with several streams and pages and the given columns.
func interopSample(t *testing.T, columns trace.Columns) string {
	t.Helper()
	r := rand.New(rand.NewPCG(11, uint64(columns)))
	var streams []*trace.Stream
	for layer := range int32(3) {
		for _, head := range []int32{trace.NoHead, 0, 1} {
			streams = append(streams, randomStream(r, trace.Key{Request: []string{"a", "ü"}[layer/2], Layer: layer, Head: head}, 50+r.IntN(200), -4, 40, 30, columns))
		}
	}
	defer trace.SetPageBytes(2000)()
	return writeTrace(t, testMeta, streams...)
}

// pyRow is a row in Python's JSON.
type pyRow struct {
	RequestID string    `json:"request_id"`
	LayerID   int32     `json:"layer_id"`
	Head      *float64  `json:"head"` // pandas turns a column with nulls into float64
	PromptLen int32     `json:"prompt_len"`
	Step      int32     `json:"step"`
	SeqLen    int32     `json:"seq_len"`
	TopK      []int32   `json:"topk_indices"`
	Scores    []float32 `json:"scores"`
	Covered   *float32  `json:"covered_mass"`
	Attention []float32 `json:"attention_mass"`
	Predicted []int32   `json:"predicted_indices"`
	Prompt    []float32 `json:"prompt_mass"`
}

// pyRows are the rows of a trace as Python should see them.
func pyRows(t *testing.T, path string) (all []pyRow) {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	for i := range f.Streams() {
		var s trace.Stream
		fatal.If(t, reader.Read(i, &s))
		for j, step := range s.Steps {
			row := pyRow{RequestID: s.Request, LayerID: s.Layer, PromptLen: s.PromptLen, Step: step, SeqLen: int32(s.SeqLen(j)),
				TopK: s.List(j), Scores: s.ScoreList(j), Predicted: s.PredictedList(j)}
			if s.Head != trace.NoHead {
				row.Head = ptr(float64(s.Head))
			}
			if len(s.CoveredMass) > 0 {
				row.Covered = &s.CoveredMass[j]
				row.Attention = s.AttentionMass[s.Offsets[j]:s.Offsets[j+1]]
			}
			if j == 0 && len(s.PromptMass) > 0 {
				row.Prompt = s.PromptMass
			}
			all = append(all, row)
		}
	}
	return all
}

// pyarrow, pandas and DuckDB read the values that the Writer wrote.
func TestPythonReadsOurs(t *testing.T) {
	for _, columns := range []trace.Columns{0, trace.ReadScores, trace.ReadAll} {
		path := interopSample(t, columns)
		var seen struct {
			Schema  [][3]any `json:"schema"`
			Duck    [][2]any `json:"duckdb_schema"`
			PyArrow []pyRow  `json:"pyarrow"`
			Pandas  []pyRow  `json:"pandas"`
			DuckDB  []pyRow  `json:"duckdb"`
			Sliced  [][3]any `json:"sliced"`
		}
		const k = 8
		fatal.If(t, json.Unmarshal(python(t, filepath.Join(interopDir, "dump.py"), path, fmt.Sprint(k)), &seen))
		want := pyRows(t, path)
		for library, got := range map[string][]pyRow{"pyarrow": seen.PyArrow, "pandas": seen.Pandas, "DuckDB": seen.DuckDB} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("columns %b: %s sees other rows (%d, expected %d)", columns, library, len(got), len(want))
			}
		}
		checkSchemas(t, seen.Schema, seen.Duck)
		for i, row := range seen.Sliced {
			var sum int64
			for _, x := range want[i].TopK {
				sum += int64(x)
			}
			demand := want[i].TopK[:min(k, len(want[i].TopK))]
			if expect := []any{toAny(demand), float64(sum), float64(len(want[i].TopK))}; !reflect.DeepEqual(row[:], expect) {
				t.Fatalf("row %d: DuckDB slices, sums and counts %v, expected %v", i, row, expect)
			}
		}
	}
}

func toAny(list []int32) []any {
	out := []any{}
	for _, x := range list {
		out = append(out, float64(x))
	}
	return out
}

func checkSchemas(t *testing.T, arrow [][3]any, duck [][2]any) {
	t.Helper()
	ints, floats := "list<element: int32 not null>", "list<element: float not null>"
	want := [][3]any{{"request_id", "string", false}, {"layer_id", "int32", false}, {"head", "int32", true}, {"prompt_len", "int32", false},
		{"step", "int32", false}, {"seq_len", "int32", false}, {"topk_indices", ints, false}, {"scores", floats, true}, {"covered_mass", "float", true},
		{"attention_mass", floats, true}, {"predicted_indices", ints, true}, {"prompt_mass", floats, true}}
	if !reflect.DeepEqual(arrow, want) {
		t.Errorf("pyarrow's schema\n%v, expected\n%v", arrow, want)
	}
	types := map[any]string{"string": "VARCHAR", "int32": "INTEGER", "float": "FLOAT", ints: "INTEGER[]", floats: "FLOAT[]"}
	for i := range duck {
		if duck[i][0] != want[i][0] || duck[i][1] != types[want[i][1]] {
			t.Errorf("DuckDB's column %v, expected %v %s", duck[i], want[i][0], types[want[i][1]])
		}
	}
}

// A trace that pyarrow writes is read with the same content and digest.
func TestWeReadPython(t *testing.T) {
	for _, columns := range []trace.Columns{0, trace.ReadAll} {
		ours, folder := interopSample(t, columns), t.TempDir()
		want := pyRows(t, ours)
		digest := digestOf(t, ours)
		names := strings.Fields(string(python(t, filepath.Join(interopDir, "rewrite.py"), ours, folder)))
		if len(names) < 15 {
			t.Fatalf("variants %q, expected 15", names)
		}
		for _, name := range names {
			path := filepath.Join(folder, name+".parquet")
			switch name {
			case "unchecked":
				expectRule(t, path, trace.RuleChecksum, "write_page_checksum=True")
			case "lz4":
				expectRule(t, path, trace.RuleFile, "compression LZ4")
			case "int64":
				expectRule(t, path, trace.RuleSchema, "expected INT32")
			default:
				if got := pyRows(t, path); !reflect.DeepEqual(got, want) {
					t.Errorf("columns %b, %s: other rows", columns, name)
				}
				if got := digestOf(t, path); got != digest {
					t.Errorf("columns %b, %s: digest %s, expected %s", columns, name, got, digest)
				}
				readShuffled(t, path, ours)
			}
		}
		alterUnchecked(t, filepath.Join(folder, "unchecked_with_digest.parquet"))
	}
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	digest, err := f.ComputeDigest()
	fatal.If(t, err)
	return digest
}

// readShuffled compares two files stream by stream in random order. It uses page indexes,
// dictionaries and pages that begin inside a row.
func readShuffled(t *testing.T, path, like string) {
	t.Helper()
	var files [2]*trace.File
	var readers [2]*trace.Reader
	for i, p := range []string{path, like} {
		f, err := trace.Open(p)
		fatal.If(t, err)
		defer f.Close()
		files[i], readers[i] = f, f.NewReader(trace.ReadAll)
		defer readers[i].Close()
	}
	for _, i := range rand.New(rand.NewPCG(2, 2)).Perm(3 * len(files[0].Streams())) {
		i %= len(files[0].Streams())
		var got, want trace.Stream
		if err := readers[0].Read(i, &got); err != nil {
			t.Fatalf("%s stream %d: %v", filepath.Base(path), i, err)
		}
		fatal.If(t, readers[1].Read(i, &want))
		want.StreamInfo = got.StreamInfo
		compare(t, uint64(i), &got, &want)
	}
}

// alterUnchecked changes one index of a file without CRCs. The digest reveals the change.
func alterUnchecked(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	want := pyRows(t, path)
	r := rand.New(rand.NewPCG(4, 4))
	for range 60 {
		bit := r.IntN(8 * len(raw) * 3 / 4)
		raw[bit/8] ^= 1 << (bit % 8)
		altered := filepath.Join(t.TempDir(), "altered.parquet")
		fatal.If(t, os.WriteFile(altered, raw, 0o600))
		raw[bit/8] ^= 1 << (bit % 8)
		f, err := trace.Open(altered)
		if err != nil {
			continue
		}
		f.Close()
		if !reflect.DeepEqual(pyRows(t, altered), want) {
			t.Errorf("bit %d of byte %d: other content without an error", bit%8, bit/8)
		}
	}
}

// The examples of FORMAT.md run. The file that they write is valid, and the reading examples accept
// it.
func TestFormatExamples(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	fatal.If(t, err)
	var scripts []string
	for i, part := range strings.Split(string(text), "```") {
		if code, ok := strings.CutPrefix(part, "python\n"); ok && i%2 == 1 {
			script := filepath.Join(t.TempDir(), "example.py")
			fatal.If(t, os.WriteFile(script, []byte(code), 0o600))
			scripts = append(scripts, script)
		}
	}
	if len(scripts) != 2 {
		t.Fatalf("%d Python examples in FORMAT.md, expected a writer and a reader", len(scripts))
	}
	path := filepath.Join(t.TempDir(), "example.parquet")
	python(t, scripts[0], path)
	if rules, messages := violated(t, path); rules != nil {
		t.Errorf("the writer's file breaks %q:\n%s", rules, messages)
	}
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	if len(f.Streams()) != 2 || f.RowGroups() != 2 || !f.HasScores() || f.Streams()[0].Windows != 2 {
		t.Errorf("streams %+v", f.Streams())
	}
	// Index 3 stays at rank 2 and the best one changes, so half of the demand repeats.
	if out := string(python(t, scripts[1], path)); strings.Count(out, "0.5") != 2 {
		t.Errorf("the reader prints\n%s", out)
	}
}
