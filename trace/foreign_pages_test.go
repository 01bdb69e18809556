package trace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Pages of other writers end anywhere. Streams that begin and end inside pages are read one after
// the other, in list columns and single-value columns.
func TestStreamsAcrossPages(t *testing.T) {
	type row struct {
		RequestID string   `parquet:"request_id"`
		LayerID   int32    `parquet:"layer_id"`
		PromptLen int32    `parquet:"prompt_len"`
		Step      int32    `parquet:"step"`
		SeqLen    int32    `parquet:"seq_len"`
		Indices   []int32  `parquet:"topk_indices,list"`
		Covered   *float32 `parquet:"covered_mass,optional"`
	}
	const layers, steps, prompt = 5, 37, 100
	value := func(layer, step int) float32 { return float32(layer*steps+step) / 1024 }
	path := filepath.Join(t.TempDir(), "foreign.parquet")
	out, err := os.Create(path)
	fatal.If(t, err)
	w := parquet.NewGenericWriter[row](out, parquet.PageBufferSize(200), parquet.KeyValueMetadata("kvreplay", `{"block_tokens":1,"candidates":2,"order":"rank","topk":2,"version":1}`))
	for layer := range layers {
		for step := range steps {
			covered := value(layer, step)
			r := row{"r", int32(layer), prompt, int32(step), int32(prompt + step + 1), []int32{int32(step), int32(layer + 40)}, &covered}
			if _, err := w.Write([]row{r}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fatal.If(t, w.Close())
	fatal.If(t, out.Close())
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	reader := f.NewReader(trace.ReadAll)
	defer reader.Close()
	var s trace.Stream
	for layer := range layers {
		fatal.If(t, reader.Read(layer, &s))
		for step := range steps {
			if list := s.List(step); list[0] != int32(step) || list[1] != int32(layer+40) || s.CoveredMass[step] != value(layer, step) {
				t.Fatalf("layer %d, step %d: %v, %g, expected %g", layer, step, list, s.CoveredMass[step], value(layer, step))
			}
		}
	}
}
