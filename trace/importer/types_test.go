package importer

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// parquetOf returns a Parquet file of one row.
func parquetOf[T any](t *testing.T, row T) string {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[T](&out)
	if _, err := w.Write([]T{row}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	return write(t, t.TempDir(), "typed.parquet", out.Bytes())
}

// A type that is not a plain number is refused with the column's name, even if its bytes could be
// read as numbers.
func TestParquetTypes(t *testing.T) {
	type keys struct {
		RequestID string `parquet:"request_id"`
		PromptLen int32  `parquet:"prompt_len"`
		LayerID   int32  `parquet:"layer_id"`
	}
	type steps struct {
		Step int32 `parquet:"step"`
	}
	type lists struct {
		Indices []int32 `parquet:"topk_indices,list"`
	}
	type pair struct{ A, B int32 }
	k, list := keys{RequestID: "r", PromptLen: 9}, lists{[]int32{3, 1}}
	for text, path := range map[string]string{
		"column step: is step.A, nested 0 deep, expected one value": parquetOf(t, struct {
			keys
			lists
			Step pair `parquet:"step"`
		}{k, list, pair{}}),
		"column topk_indices: is topk_indices.list.element.A, nested 1 deep": parquetOf(t, struct {
			keys
			steps
			Indices []pair `parquet:"topk_indices,list"`
		}{k, steps{}, []pair{{1, 2}}}),
		"column topk_indices: holds several values side by side": parquetOf(t, struct {
			keys
			steps
			Indices []pair `parquet:"topk_indices"`
		}{k, steps{}, []pair{{1, 2}}}),
		"column topk_indices: holds texts, expected a list of numbers. Write lists with": parquetOf(t, struct {
			keys
			steps
			Indices string `parquet:"topk_indices,json"`
		}{k, steps{}, "[3,1]"}),
		"column request_id is missing: found [step], expected [request_id layer_id prompt_len step topk_indices]": parquetOf(t, struct {
			Step int64 `parquet:"step"`
		}{}),
		"column step: has the type TIMESTAMP": parquetOf(t, struct {
			keys
			lists
			Step int64 `parquet:"step,timestamp"`
		}{k, list, 0}),
		"column step: has the type DECIMAL": parquetOf(t, struct {
			keys
			lists
			Step int32 `parquet:"step,decimal(2:7)"`
		}{k, list, 100}),
		"column topk_indices: has the type BOOLEAN, expected positions as whole numbers": parquetOf(t, struct {
			keys
			steps
			Indices []bool `parquet:"topk_indices,list"`
		}{k, steps{}, []bool{true}}),
		"column topk_indices: value 1 of the list is 4294967295, expected one that int32 holds": parquetOf(t, struct {
			keys
			steps
			Indices []uint32 `parquet:"topk_indices,list"`
		}{k, steps{}, []uint32{3, 1<<32 - 1}}),
		"column topk_indices: value 1 of the list is 18446744073709551615, expected one that int32 holds": parquetOf(t, struct {
			keys
			steps
			Indices []uint64 `parquet:"topk_indices,list"`
		}{k, steps{}, []uint64{3, 1<<64 - 1}}),
	} {
		mustFail(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, []string{text}, path)
	}
	_, streams := importAll(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, parquetOf(t, struct {
		keys
		Step    int8     `parquet:"step"`
		Indices []uint16 `parquet:"topk_indices"` // repeated without a surrounding list
	}{k, 0, []uint16{3, 1}}))
	if list := streams[0].List(0); len(list) != 2 || list[0] != 3 || list[1] != 1 {
		t.Errorf("list %v, expected 3 and 1", list)
	}
}

// A table without request ids takes the id from --request-id. A table with ids must not have
// another id. Numbers must fit into 32 bits, and required values must not be null.
func TestTableRows(t *testing.T) {
	type row struct {
		Request *string  `parquet:"request_id,optional"`
		Layer   int64    `parquet:"layer_id"`
		Prompt  *int64   `parquet:"prompt_len,optional"`
		Step    *float64 `parquet:"step,optional"`
		SeqLen  *int64   `parquet:"seq_len,optional"`
		Indices []int32  `parquet:"topk_indices,list"`
	}
	o := Options{RequestID: "r", Meta: trace.Meta{Order: trace.OrderRank}}
	other, ten, eleven, large, zero, half := "q", int64(10), int64(11), int64(1)<<32, 0.0, 0.5
	good := row{nil, 3, &ten, &zero, &eleven, []int32{4}}
	_, streams := importAll(t, o, parquetOf(t, good))
	if s := streams[0]; s.Request != "r" || s.Layer != 3 || s.PromptLen != 10 || s.Steps[0] != 0 {
		t.Errorf("%+v", s)
	}
	for want, change := range map[string]func(*row){
		`request_id is "q", but --request-id is "r"`:         func(r *row) { r.Request = &other },
		"column layer_id: is 4294967296, expected a value":   func(r *row) { r.Layer = large },
		"column layer_id: is -4294967296, expected a value":  func(r *row) { r.Layer = -large },
		"layer_id or step is null":                           func(r *row) { r.Step = nil },
		"column step: is 0.5, expected a whole number":       func(r *row) { r.Step = &half },
		"prompt_len is null":                                 func(r *row) { r.Prompt = nil },
		"seq_len is 10, expected prompt_len + step + 1 = 11": func(r *row) { r.SeqLen = &ten },
	} {
		bad := good
		change(&bad)
		mustFail(t, o, []string{"row 1", want}, parquetOf(t, bad))
	}
	o.PromptLen = 10
	good.Prompt = nil
	if _, streams := importAll(t, o, parquetOf(t, good)); streams[0].PromptLen != 10 {
		t.Errorf("prompt %d, expected that of the flag", streams[0].PromptLen)
	}
}

// Integers in Arrow lists may have any width, as in Parquet. Masks and views are refused with the
// column's name.
func TestArrowTypes(t *testing.T) {
	file := func(list arrow.DataType, fill func(array.Builder)) string {
		i32 := arrow.PrimitiveTypes.Int32
		schema := arrow.NewSchema([]arrow.Field{{Name: "request_id", Type: arrow.BinaryTypes.String}, {Name: "layer_id", Type: i32},
			{Name: "prompt_len", Type: i32}, {Name: "step", Type: i32}, {Name: "topk_indices", Type: arrow.ListOf(list)}}, nil)
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		defer b.Release()
		b.Field(0).(*array.StringBuilder).Append("r")
		for i, v := range []int32{0, 300, 0} {
			b.Field(1 + i).(*array.Int32Builder).Append(v)
		}
		l := b.Field(4).(*array.ListBuilder)
		l.Append(true)
		fill(l.ValueBuilder())
		var out bytes.Buffer
		w := ipc.NewWriter(&out, ipc.WithSchema(schema))
		fatal.If(t, w.Write(b.NewRecord()))
		fatal.If(t, w.Close())
		return write(t, t.TempDir(), "typed.arrow", out.Bytes())
	}
	rank, p := Options{Meta: trace.Meta{Order: trace.OrderRank}}, arrow.PrimitiveTypes
	for _, path := range []string{
		file(p.Int8, func(b array.Builder) { b.(*array.Int8Builder).AppendValues([]int8{99, 3, -1}, nil) }),
		file(p.Int16, func(b array.Builder) { b.(*array.Int16Builder).AppendValues([]int16{99, 3, -1}, nil) }),
		file(p.Uint8, func(b array.Builder) { b.(*array.Uint8Builder).AppendValues([]uint8{99, 3}, nil) }),
		file(p.Uint16, func(b array.Builder) { b.(*array.Uint16Builder).AppendValues([]uint16{99, 3}, nil) }),
		file(p.Uint32, func(b array.Builder) { b.(*array.Uint32Builder).AppendValues([]uint32{99, 3}, nil) }),
		file(p.Uint64, func(b array.Builder) { b.(*array.Uint64Builder).AppendValues([]uint64{99, 3}, nil) }),
	} {
		if _, streams := importAll(t, rank, path); !slices.Equal(streams[0].List(0), []int32{99, 3}) {
			t.Errorf("list %v, expected 99 and 3", streams[0].List(0))
		}
	}
	for text, path := range map[string]string{
		"value 1 of the list is 4294967295, expected one that int32 holds":               file(p.Uint32, func(b array.Builder) { b.(*array.Uint32Builder).AppendValues([]uint32{3, 1<<32 - 1}, nil) }),
		"value 1 of the list is 18446744073709551615, expected one that int32 holds":     file(p.Uint64, func(b array.Builder) { b.(*array.Uint64Builder).AppendValues([]uint64{3, 1<<64 - 1}, nil) }),
		"column topk_indices: has the type bool, expected positions as whole numbers":    file(arrow.FixedWidthTypes.Boolean, func(b array.Builder) { b.(*array.BooleanBuilder).Append(true) }),
		"column topk_indices: has the type float64, expected positions as whole numbers": file(p.Float64, func(b array.Builder) { b.(*array.Float64Builder).Append(3) }),
	} {
		mustFail(t, rank, []string{text}, path)
	}
}

// Doubles rank at their own precision, and a list with a NaN is rejected.
func TestDoubleScores(t *testing.T) {
	type row struct {
		RequestID string    `parquet:"request_id"`
		PromptLen int32     `parquet:"prompt_len"`
		LayerID   int32     `parquet:"layer_id"`
		Step      int32     `parquet:"step"`
		Indices   []int32   `parquet:"topk_indices,list"`
		Scores    []float64 `parquet:"scores,list"`
	}
	list := func(scores ...float64) row {
		return row{RequestID: "r", PromptLen: 9, Indices: []int32{1, 2, 3}, Scores: scores}
	}
	_, streams := importAll(t, Options{}, parquetOf(t, list(1.00000001, 0.5, 1.00000002)))
	if got := streams[0].List(0); !slices.Equal(got, []int32{3, 1, 2}) {
		t.Errorf("list %v, expected 3, 1 and 2", got)
	}
	mustFail(t, Options{}, []string{"scores[1] = NaN"}, parquetOf(t, list(0.25, math.NaN(), 0.5)))
}

// A null in an Arrow dictionary counts as a null.
func TestArrowDictionaryNull(t *testing.T) {
	mem, i32 := memory.NewGoAllocator(), arrow.PrimitiveTypes.Int32
	build := func(null bool, values ...int32) arrow.Array {
		b := array.NewInt32Builder(mem)
		defer b.Release()
		b.AppendValues(values, nil)
		if null {
			b.AppendNull()
		}
		return b.NewArray()
	}
	ids := array.NewStringBuilder(mem)
	ids.Append("r")
	list := array.NewListBuilder(mem, i32)
	list.Append(true)
	list.ValueBuilder().(*array.Int32Builder).Append(3)
	typ := &arrow.DictionaryType{IndexType: i32, ValueType: i32}
	layer := array.NewDictionaryArray(typ, build(false, 0), build(true))
	schema := arrow.NewSchema([]arrow.Field{{Name: "request_id", Type: arrow.BinaryTypes.String}, {Name: "layer_id", Type: typ},
		{Name: "prompt_len", Type: i32}, {Name: "step", Type: i32}, {Name: "topk_indices", Type: arrow.ListOf(i32)}}, nil)
	batch := array.NewRecord(schema, []arrow.Array{ids.NewArray(), layer, build(false, 9), build(false, 0), list.NewArray()}, 1)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	fatal.If(t, w.Write(batch))
	fatal.If(t, w.Close())
	mustFail(t, Options{Meta: trace.Meta{Order: trace.OrderRank}}, []string{"row 1: layer_id or step is null"}, write(t, t.TempDir(), "null.arrow", out.Bytes()))
}
