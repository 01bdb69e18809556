package derive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// A trace of another writer may have exact scores and not state it. Its scores stay unchanged.
func TestExactScores(t *testing.T) {
	type row struct {
		RequestID string    `parquet:"request_id"`
		LayerID   int32     `parquet:"layer_id"`
		PromptLen int32     `parquet:"prompt_len"`
		Step      int32     `parquet:"step"`
		SeqLen    int32     `parquet:"seq_len"`
		Indices   []int32   `parquet:"topk_indices,list"`
		Scores    []float32 `parquet:"scores,optional,list"`
	}
	src := filepath.Join(t.TempDir(), "foreign.parquet")
	out, err := os.Create(src)
	fatal.If(t, err)
	w := parquet.NewGenericWriter[row](out, parquet.KeyValueMetadata("kvreplay", `{"block_tokens":1,"candidates":3,"order":"rank","topk":3,"version":1}`))
	scores := []float32{.50001, .5, .4} // rounding to 10 bits would give 0.5, 0.5 and 0.3999
	if _, err := w.Write([]row{{RequestID: "r", PromptLen: 9, SeqLen: 10, Indices: []int32{3, 1, 2}, Scores: scores}}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, w.Close())
	fatal.If(t, out.Close())
	meta, streams, _ := derived(t, src, Options{})
	if !slices.Equal(streams[0].Scores, scores) || meta.ScoreMantissaBits == nil || *meta.ScoreMantissaBits != 23 {
		t.Errorf("scores %v, expected %v; metadata %+v", streams[0].Scores, scores, meta)
	}
}
