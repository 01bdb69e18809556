package importer

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// sample is part of a real trace with the options that it needs.
type sample struct {
	name    string
	content []byte // unpacked
	options Options
}

func samples(t testing.TB) []sample {
	news := unzip(t, read(t, "testdata/news.jsonl.gz"))
	_, streams := importAll(t, Options{}, write(t, t.TempDir(), "news", news))
	return []sample{
		{"jsonl", news, Options{}},
		{"sglang", unzip(t, read(t, "testdata/sglang.json.gz")), Options{}},
		{"npz", read(t, "testdata/niah.npz"), Options{RequestID: "niah", Meta: trace.Meta{Order: trace.OrderRank}}},
		{"arrow file", arrowBytes(t, true, "", streams), Options{}},
		{"arrow stream", arrowBytes(t, false, "", streams), Options{}},
		{"parquet", foreignParquet(t, streams), Options{}},
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	fatal.If(t, err)
	return b
}

func write(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	fatal.If(t, os.WriteFile(path, b, 0o644))
	return path
}

func unzip(t testing.TB, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	fatal.If(t, err)
	out, err := io.ReadAll(r)
	fatal.If(t, err)
	return out
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// importAll imports the sources and reads the trace.
func importAll(t testing.TB, o Options, paths ...string) (*Result, []*trace.Stream) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.parquet")
	result, err := Import(context.Background(), o, out, paths...)
	fatal.If(t, err)
	return result, readAll(t, out)
}

func readAll(t testing.TB, path string) []*trace.Stream {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	r := f.NewReader(trace.ReadAll)
	defer r.Close()
	var all []*trace.Stream
	for i := range f.Streams() {
		s := &trace.Stream{}
		fatal.If(t, r.Read(i, s))
		all = append(all, s)
	}
	return all
}

// mustFail expects an import to fail with an error that contains all words, and to write nothing.
func mustFail(t testing.TB, o Options, words []string, paths ...string) error {
	t.Helper()
	dir := t.TempDir()
	_, err := Import(context.Background(), o, filepath.Join(dir, "out.parquet"), paths...)
	if err == nil {
		t.Fatalf("import succeeded, expected an error with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error lacks %q: %v", word, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return err
}

// arrowBytes writes streams step by step, all streams of a step together, as captures do. more
// holds further keys and values of the metadata.
func arrowBytes(t testing.TB, file bool, meta string, streams []*trace.Stream, more ...string) []byte {
	t.Helper()
	i32, f32 := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32
	fields := []arrow.Field{{Name: "request_id", Type: &arrow.DictionaryType{IndexType: i32, ValueType: arrow.BinaryTypes.String}},
		{Name: "layer_id", Type: i32}, {Name: "head", Type: i32, Nullable: true}, {Name: "prompt_len", Type: arrow.PrimitiveTypes.Int64},
		{Name: "step", Type: i32}, {Name: "seq_len", Type: i32}, {Name: "topk_indices", Type: arrow.ListOf(i32)},
		{Name: "scores", Type: arrow.ListOf(f32), Nullable: true}, {Name: "covered_mass", Type: f32, Nullable: true},
		{Name: "attention_mass", Type: arrow.ListOf(f32), Nullable: true}, {Name: "predicted_indices", Type: arrow.ListOf(i32), Nullable: true},
		{Name: "prompt_mass", Type: arrow.ListOf(f32), Nullable: true}}
	var md *arrow.Metadata
	if meta != "" {
		keys, values := []string{metaKey}, []string{meta}
		for i := 0; i+1 < len(more); i += 2 {
			keys, values = append(keys, more[i]), append(values, more[i+1])
		}
		m := arrow.NewMetadata(keys, values)
		md = &m
	}
	schema := arrow.NewSchema(fields, md)
	batch := record32(schema, streams)
	defer batch.Release()
	var out bytes.Buffer
	var w interface {
		Write(arrow.Record) error
		Close() error
	}
	w = ipc.NewWriter(&out, ipc.WithSchema(schema))
	if file {
		var err error
		if w, err = ipc.NewFileWriter(&seeker{Buffer: &out}, ipc.WithSchema(schema)); err != nil {
			t.Fatal(err)
		}
	}
	half := batch.NumRows() / 2
	for _, part := range []arrow.Record{batch.NewSlice(0, half), batch.NewSlice(half, batch.NumRows())} {
		if part.NumRows() == 0 {
			continue
		}
		fatal.If(t, w.Write(part))
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// seeker lets the file writer ask for its position.
type seeker struct{ *bytes.Buffer }

func (s *seeker) Seek(int64, int) (int64, error) { return int64(s.Len()), nil }

func record32(schema *arrow.Schema, streams []*trace.Stream) arrow.Record {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	type at struct{ stream, row int }
	var rows []at
	for i, s := range streams {
		for j := range s.Rows {
			rows = append(rows, at{i, j})
		}
	}
	slices.SortStableFunc(rows, func(a, b at) int { return int(streams[a.stream].Steps[a.row] - streams[b.stream].Steps[b.row]) })
	for _, r := range rows {
		appendArrow(b, streams[r.stream], r.row)
	}
	return b.NewRecord()
}

func appendArrow(b *array.RecordBuilder, s *trace.Stream, i int) {
	_ = b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(s.Request)
	b.Field(1).(*array.Int32Builder).Append(s.Layer)
	if s.Head == trace.NoHead {
		b.Field(2).AppendNull()
	} else {
		b.Field(2).(*array.Int32Builder).Append(s.Head)
	}
	b.Field(3).(*array.Int64Builder).Append(int64(s.PromptLen))
	b.Field(4).(*array.Int32Builder).Append(s.Steps[i])
	b.Field(5).(*array.Int32Builder).Append(int32(s.SeqLen(i)))
	ints := func(field int, list []int32, has bool) {
		l := b.Field(field).(*array.ListBuilder)
		if !has {
			l.AppendNull()
			return
		}
		l.Append(true)
		l.ValueBuilder().(*array.Int32Builder).AppendValues(list, nil)
	}
	floats := func(field int, list []float32) {
		l := b.Field(field).(*array.ListBuilder)
		if len(list) == 0 {
			l.AppendNull()
			return
		}
		l.Append(true)
		l.ValueBuilder().(*array.Float32Builder).AppendValues(list, nil)
	}
	ints(6, s.List(i), true)
	floats(7, s.ScoreList(i))
	if len(s.CoveredMass) > 0 {
		b.Field(8).(*array.Float32Builder).Append(s.CoveredMass[i])
	} else {
		b.Field(8).AppendNull()
	}
	var masses []float32
	if len(s.AttentionMass) > 0 {
		masses = s.AttentionMass[s.Offsets[i]:s.Offsets[i+1]]
	}
	floats(9, masses)
	ints(10, s.PredictedList(i), len(s.PredictedOffsets) > 0)
	var prompt []float32
	if i == 0 {
		prompt = s.PromptMass
	}
	floats(11, prompt)
}
