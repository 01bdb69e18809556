package parquet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Rows in the encodings that writers choose. Each type has the same columns.
type (
	deltaRow struct {
		ID    string    `parquet:"id,dict"`
		Flat  int32     `parquet:"flat,delta"`
		Maybe *float32  `parquet:"maybe,optional,dict"`
		Ints  []int32   `parquet:"ints,list" parquet-element:",delta"`
		Reals []float32 `parquet:"reals,optional,list" parquet-element:",split,zstd"`
	}
	plainRow struct {
		ID    string    `parquet:"id"`
		Flat  int32     `parquet:"flat,snappy"`
		Maybe *float32  `parquet:"maybe,optional,gzip"`
		Ints  []int32   `parquet:"ints,optional,list" parquet-element:",snappy"`
		Reals []float32 `parquet:"reals,optional,list" parquet-element:",dict"`
	}
	dictRow struct {
		ID    string    `parquet:"id,delta"`
		Flat  int32     `parquet:"flat,dict,zstd"`
		Maybe *float32  `parquet:"maybe,optional,split"`
		Ints  []int32   `parquet:"ints,optional,list" parquet-element:",dict,brotli"`
		Reals []float32 `parquet:"reals,list"`
	}
)

func randomRows(r *rand.Rand) []deltaRow {
	rows := make([]deltaRow, 1+r.IntN(400))
	longest := 1 + r.IntN(60)
	nulls := r.IntN(2) * 4
	null := func() bool { return nulls > 0 && r.IntN(nulls) == 0 }
	for i := range rows {
		row := deltaRow{ID: fmt.Sprint("request ", i/7), Flat: int32(r.IntN(40))}
		if !null() {
			v := r.Float32()
			row.Maybe = &v
		}
		for range r.IntN(longest) {
			row.Ints = append(row.Ints, r.Int32N(1000))
		}
		if !null() {
			row.Reals = []float32{}
			for range r.IntN(longest) {
				row.Reals = append(row.Reals, r.Float32())
			}
		}
		rows[i] = row
	}
	return rows
}

func writeRows[T any](t *testing.T, rows []T, options ...parquetgo.WriterOption) *File {
	t.Helper()
	var out bytes.Buffer
	w := parquetgo.NewGenericWriter[T](&out, options...)
	for i := range rows {
		if _, err := w.Write(rows[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	fatal.If(t, w.Close())
	f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	fatal.If(t, err)
	if _, err := f.CheckPages(false); err != nil {
		t.Fatal(err)
	}
	return f
}

// Cursors read the written values in order and from any row, for every encoding, compression and
// page version.
func TestCursorsReadWhatWasWritten(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		rows := randomRows(r)
		options := []parquetgo.WriterOption{parquetgo.PageBufferSize(100 + r.IntN(3000)), parquetgo.DataPageVersion(1 + r.IntN(2))}
		var f *File
		switch seed % 3 {
		case 0:
			f = writeRows(t, rows, options...)
		case 1:
			var other []plainRow
			for _, row := range rows {
				other = append(other, plainRow(row))
			}
			f = writeRows(t, other, options...)
		case 2:
			var other []dictRow
			for _, row := range rows {
				other = append(other, dictRow(row))
			}
			f = writeRows(t, other, options...)
		}
		ids, err := f.Strings(0, &f.Leaves[0], len(rows), nil, false)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range rows {
			if ids[i] != rows[i].ID {
				t.Fatalf("seed %d row %d: id %q, expected %q", seed, i, ids[i], rows[i].ID)
			}
		}
		checkFlat(t, seed, r, f, 1, rows, func(row *deltaRow) *int32 { return &row.Flat })
		checkFlat(t, seed, r, f, 2, rows, func(row *deltaRow) *float32 { return row.Maybe })
		checkLists(t, seed, r, f, 3, rows, func(row *deltaRow) []int32 { return row.Ints })
		checkLists(t, seed, r, f, 4, rows, func(row *deltaRow) []float32 { return row.Reals })
	}
}

// spans calls read for parts of n rows: all in order, then some at random. seek reports whether a
// part does not follow the previous one.
func spans(r *rand.Rand, n int, read func(from, to int, seek bool)) {
	for at := 0; at < n; {
		to := at + 1 + r.IntN(n-at)
		read(at, to, false)
		at = to
	}
	for range 20 {
		from := r.IntN(n)
		read(from, from+1+r.IntN(n-from), true)
	}
}

func checkFlat[T int32 | float32](t *testing.T, seed uint64, r *rand.Rand, f *File, leaf int, rows []deltaRow, value func(*deltaRow) *T) {
	t.Helper()
	var c Cursor[T]
	c.Open(f, 0, &f.Leaves[leaf])
	defer c.Close()
	spans(r, len(rows), func(from, to int, seek bool) {
		if seek {
			if err := c.SeekRow(int64(from)); err != nil {
				t.Fatalf("seed %d column %d row %d: %v", seed, leaf, from, err)
			}
		}
		got, err := c.Flat(to-from, nil, -1)
		if err != nil {
			t.Fatalf("seed %d column %d row %d: %v", seed, leaf, from, err)
		}
		nulls := 0
		for i := from; i < to; i++ {
			want := value(&rows[i])
			if want == nil {
				nulls++
			}
			if want == nil && got[i-from] != -1 || want != nil && got[i-from] != *want {
				t.Fatalf("seed %d column %d row %d: %v, expected %v", seed, leaf, i, got[i-from], want)
			}
		}
		if c.Rows.Nulls != nulls {
			t.Fatalf("seed %d column %d row %d: %d nulls, expected %d", seed, leaf, from, c.Rows.Nulls, nulls)
		}
	})
}

func checkLists[T int32 | float32](t *testing.T, seed uint64, r *rand.Rand, f *File, leaf int, rows []deltaRow, list func(*deltaRow) []T) {
	t.Helper()
	var c Cursor[T]
	c.Open(f, 0, &f.Leaves[leaf])
	defer c.Close()
	spans(r, len(rows), func(from, to int, seek bool) {
		if seek {
			if err := c.SeekRow(int64(from)); err != nil {
				t.Fatalf("seed %d column %d row %d: %v", seed, leaf, from, err)
			}
		}
		got, ends, err := c.Lists(to-from, 1<<20, nil, nil)
		if err != nil {
			t.Fatalf("seed %d column %d row %d: %v", seed, leaf, from, err)
		}
		begin := int32(0)
		for i := from; i < to; i++ {
			if want := list(&rows[i]); !slices.Equal(got[begin:ends[i-from]], want) {
				t.Fatalf("seed %d column %d row %d: %v, expected %v", seed, leaf, i, got[begin:ends[i-from]], want)
			}
			begin = ends[i-from]
		}
	})
}
