package trace_test

import (
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/parquet/file"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Another Parquet reader sees the same indices. The test compares index columns only, because that
// library panics on BYTE_STREAM_SPLIT, the encoding of scores.
func TestArrowReadsIndices(t *testing.T) {
	path := interopSample(t, trace.ReadAll)
	r, err := file.OpenParquetFile(path, false)
	fatal.If(t, err)
	defer r.Close()
	var want []int32
	var rows int
	for _, row := range pyRows(t, path) {
		want, rows = append(want, row.TopK...), rows+1
	}
	var got []int32
	starts := 0
	for g := range r.NumRowGroups() {
		column := r.MetaData().Schema.ColumnIndexByName("topk_indices.list.element")
		chunk, err := r.RowGroup(g).Column(column)
		fatal.If(t, err)
		values, def, rep := make([]int32, 512), make([]int16, 512), make([]int16, 512)
		reader := chunk.(*file.Int32ColumnChunkReader)
		for reader.HasNext() {
			levels, n, err := reader.ReadBatch(int64(len(values)), values, def, rep)
			fatal.If(t, err)
			got = append(got, values[:n]...)
			for _, l := range rep[:levels] {
				if l == 0 {
					starts++
				}
			}
		}
	}
	if !slices.Equal(got, want) || starts != rows {
		t.Errorf("arrow reads %d indices in %d lists, expected %d in %d", len(got), starts, len(want), rows)
	}
}
