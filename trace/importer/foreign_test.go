package importer

import (
	"bytes"
	"math"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// foreignRow is a row of another tool: wide integers, nullable elements, a double for head, an
// additional column and no seq_len.
type foreignRow struct {
	RequestID string     `parquet:"request_id,snappy"`
	LayerID   int64      `parquet:"layer_id"`
	Head      *float64   `parquet:"head,optional"`
	PromptLen int64      `parquet:"prompt_len"`
	Step      int64      `parquet:"step"`
	Indices   []int64    `parquet:"topk_indices,optional,list"`
	Scores    []*float64 `parquet:"scores,optional,list"`
	Extra     string     `parquet:"extra"`
}

func foreignParquet(t testing.TB, streams []*trace.Stream, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[foreignRow](&out, options...)
	for _, s := range streams {
		for i := range s.Rows {
			nan := math.NaN() // pandas turns null into NaN
			row := foreignRow{Head: []*float64{nil, &nan}[i%2], RequestID: s.Request, LayerID: int64(s.Layer), PromptLen: int64(s.PromptLen), Step: int64(s.Steps[i]), Extra: "x"}
			for j, x := range s.List(i) {
				row.Indices = append(row.Indices, int64(x))
				if v := s.ScoreList(i); len(v) > 0 {
					f := float64(v[j])
					row.Scores = append(row.Scores, &f)
				}
			}
			row.Indices = append(row.Indices, -1)
			if len(row.Scores) > 0 {
				zero := 0.0
				row.Scores = append(row.Scores, &zero)
			}
			if _, err := w.Write([]foreignRow{row}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fatal.If(t, w.Close())
	return out.Bytes()
}

// A compression that the library may decode to wrong values is refused before reading.
func TestParquetCodecs(t *testing.T) {
	streams := []*trace.Stream{{}}
	streams[0].Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 9})
	streams[0].Append(trace.Row{Indices: []int32{3, 1}, Scores: []float32{2, 1}})
	file := func(codec compress.Codec) string {
		return write(t, t.TempDir(), "c.parquet", foreignParquet(t, streams, parquet.Compression(codec)))
	}
	importAll(t, Options{}, file(&parquet.Zstd))
	mustFail(t, Options{}, []string{"column layer_id: compression LZ4_RAW", "zstd"}, file(&parquet.Lz4Raw))
}
