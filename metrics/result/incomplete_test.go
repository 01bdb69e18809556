package result_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
	"github.com/parquet-go/parquet-go"
)

// A requested cell is missing without a row of its settings, level of detail, engine and policy.
// Conditions on settings choose the cells that matter.
func TestFindIncomplete(t *testing.T) {
	asked := []result.Row{rowstest.Row("a", "lru", "1x", 0), rowstest.Row("a", "opt", "1x", 0), rowstest.Row("b", "lru", "1x", 0), rowstest.Row("b", "opt", "1x", 0)}
	change := func(i int, f func(*result.Row)) []result.Row {
		rows := slices.Clone(asked)
		f(&rows[i])
		return rows
	}
	for name, c := range map[string]struct {
		rows  []result.Row
		where []string
		want  string // empty: complete
	}{
		"all":              {asked, nil, ""},
		"more":             {append(slices.Clone(asked), rowstest.Row("c", "lru", "1x", 3)), nil, ""},
		"other counts":     {change(0, func(r *result.Row) { r.Misses, r.Hits = 7, 93 }), nil, ""},
		"none":             {nil, nil, "0 of 2 traces a, b"},
		"a trace":          {asked[:2], nil, "1 of 2 traces b"},
		"a cell":           {asked[:3], nil, "1 of 2 traces b (1 of 2 cells)"},
		"another trace":    {change(0, func(r *result.Row) { r.TraceDigest = "other" }), nil, "1 of 2 traces a (1 of 2 cells)"},
		"another setting":  {change(0, func(r *result.Row) { r.Sink++ }), nil, "1 of 2 traces a (1 of 2 cells)"},
		"another engine":   {change(0, func(r *result.Row) { r.Engine = "old" }), nil, "1 of 2 traces a (1 of 2 cells)"},
		"another policy":   {change(0, func(r *result.Row) { r.Bypasses = true }), nil, "1 of 2 traces a (1 of 2 cells)"},
		"other detail":     {change(0, func(r *result.Row) { r.RequestID = rowstest.Ptr("r") }), nil, "1 of 2 traces a (1 of 2 cells)"},
		"not selected":     {asked[:2], []string{"trace=a"}, ""},
		"left out":         {asked[:3], []string{"policy!=opt"}, ""},
		"selected":         {asked[:2], []string{"trace=b", "policy=opt"}, "0 of 1 trace b"},
		"of a part":        {asked[:2], []string{"request_id=r1"}, "1 of 2 traces b"},
		"of a count":       {asked[:2], []string{"misses=3"}, "1 of 2 traces b"},
		"nothing asked of": {nil, []string{"trace=z"}, ""},
	} {
		where, err := result.ParseWhere(c.where)
		fatal.If(t, err)
		got := ""
		if i := result.FindIncomplete(asked, c.rows, where); i != nil {
			got = i.Shares() + " " + i.Names()
		}
		if got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// Two versions of one trace are named with their digests. If there are many traces, the first are
// named.
func TestIncompleteNames(t *testing.T) {
	twice := []result.Row{rowstest.Row("a", "lru", "1x", 0), rowstest.Row("a", "lru", "1x", 0)}
	twice[0].TraceDigest, twice[1].TraceDigest = "sha256:1111", "sha256:2222"
	if got := result.FindIncomplete(twice, nil, result.Where{}).Names(); got != "a (1111), a (2222)" {
		t.Error(got)
	}
	var many []result.Row
	for i := range 11 {
		many = append(many, rowstest.Row(string(rune('a'+i)), "lru", "1x", 0))
	}
	if got := result.FindIncomplete(many, nil, result.Where{}).Names(); got != "a, b, c, d, e, f, g, h, and 3 more" {
		t.Error(got)
	}
}

// Newer rows replace older ones of the same cell and level. The result is in one order and without
// repeats.
func TestMergeRows(t *testing.T) {
	older := []result.Row{rowstest.Row("b", "lru", "1x", 1), rowstest.Row("a", "lru", "2x", 2), rowstest.Row("a", "lru", "1x", 3)}
	newer := []result.Row{rowstest.Row("a", "lru", "1x", 4), rowstest.Row("a", "fifo", "1x", 5), rowstest.Row("a", "fifo", "1x", 5)}
	newer[0].Bypasses = true // a changed policy
	part := rowstest.Row("a", "lru", "1x", 6)
	part.RequestID = rowstest.Ptr("r")
	var got []int64
	for _, r := range result.MergeRows(newer, append(older, part)) {
		got = append(got, r.Misses)
	}
	if want := []int64{5, 4, 6, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("misses %v, expected %v", got, want)
	}
}

// A Parquet file has every field of every row, in one order for any order of the rows.
func TestWriteParquet(t *testing.T) {
	rows := rowstest.RenderRows()
	rows[0].RequestID, rows[0].LayerID, rows[0].EntryBytes = nil, nil, nil
	rows[0].HostToDeviceBytes, rows[0].DeviceToHostBytes = nil, nil
	rows[0].Warnings = []string{"one", "two"}
	var out, again bytes.Buffer
	fatal.If(t, result.WriteParquet(&out, rows))
	reversed := slices.Clone(rows)
	slices.Reverse(reversed)
	if err := result.WriteParquet(&again, append(reversed, rows...)); err != nil || !bytes.Equal(again.Bytes(), out.Bytes()) {
		t.Errorf("%v, or other bytes in another order", err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	fatal.If(t, err)
	for i, c := range file.Root().Columns() {
		if c.Name() != result.FieldNames()[i] || c.Optional() != (result.ParquetRow.Field(i).Type.Kind() == reflect.Pointer) {
			t.Errorf("column %d is %s, optional %v", i, c.Name(), c.Optional())
		}
	}
	r := parquet.NewReader(file, parquet.SchemaOf(reflect.New(result.ParquetRow).Interface()))
	for i, want := range result.MergeRows(rows, nil) {
		got := reflect.New(result.ParquetRow)
		fatal.If(t, r.Read(got.Interface()))
		row := result.FromParquet(got.Elem())
		if len(row.Warnings) == 0 {
			row.Warnings = nil
		}
		if !reflect.DeepEqual(row, want) {
			t.Errorf("row %d is\n%+v, expected\n%+v", i, row, want)
		}
	}
	merged, one := result.MergeRows(rows, nil), new(bytes.Buffer)
	w := result.NewParquetWriter(one)
	for i := range merged {
		fatal.If(t, w.Add(&merged[i]))
	}
	for _, r := range merged[len(merged)-2:] { // the last row again, and one before it
		if err := w.Add(&r); !errors.Is(err, result.ErrNotSorted) {
			t.Errorf("a row that does not follow: %v", err)
		}
	}
	if err := w.Close(); err != nil || !bytes.Equal(one.Bytes(), out.Bytes()) {
		t.Errorf("%v, or other bytes row by row", err)
	}
	cold := slices.Clone(rows)
	for i := range cold {
		cold[i].Warmup = result.ColdStart
	}
	w = result.NewParquetWriter(io.Discard)
	for i, r := range result.MergeRows(rows, cold) {
		if err := w.Add(&r); err != nil {
			t.Fatalf("row %d of warmed and cold rows: %v", i, err)
		}
	}
	rows[0].Misses++
	if err := result.WriteParquet(&out, rows); err == nil {
		t.Error("a row that cannot be true was written")
	}
}

// A condition in a message is one word for a shell, with any trace name.
func TestIncompleteRemedyIsQuoted(t *testing.T) {
	asked := []result.Row{rowstest.Row("a; b's.parquet", "lru", "1x", 0)}
	if got, want := result.FindIncomplete(asked, nil, result.Where{}).Error(), `--where 'trace!=a; b'\''s.parquet'`; !strings.HasSuffix(got, want) {
		t.Errorf("%s, expected %s", got, want)
	}
}
