package inspect

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// sample has two requests of two layers. The lists of the second request repeat exactly.
func sample(t *testing.T, order string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.parquet")
	m := trace.Meta{Order: order, TopK: 2, Candidates: 3, BlockTokens: 1, Model: "tiny", Notes: map[string]string{"why": "a test"}}
	if order == trace.OrderIndex {
		m.TopK = 3
	}
	w, err := trace.Create(path, m)
	fatal.If(t, err)
	for key := range 4 {
		var s trace.Stream
		s.Reset(trace.StreamInfo{Key: trace.Key{Request: []string{"a", "b"}[key/2], Layer: int32(key % 2 * 3), Head: trace.NoHead}, PromptLen: int32(10 + key/2)})
		for step := int32(-1); step < 3; step++ {
			first := 4 * (1 - int32(key/2)) * (step + 1) / 2 // a: 0 2 4 6, b: 0
			s.Append(trace.Row{Step: step, Indices: []int32{first, first + 1, first + 2}})
		}
		fatal.If(t, w.Write(&s))
	}
	fatal.If(t, w.Close())
	return path
}

// K = 2. Request a demands {2 3} {4 5} {6 7} at steps 0 … 2, without overlap. Request b demands {0
// 1} three times, with full overlap. Pooled, each layer repeats 0 + 4 of 4 + 4 blocks: 1/2.
func TestReport(t *testing.T) {
	r, err := File(context.Background(), sample(t, trace.OrderRank), Options{Layers: true})
	fatal.If(t, err)
	if r.Streams != 4 || r.Rows != 16 || r.Indices != 48 || len(r.Requests) != 2 || r.Requests[1].PromptLen != 11 || r.Requests[0].Windows != 1 || r.Requests[0].Steps != 3 {
		t.Errorf("extent %+v", r)
	}
	if ranges(r.Layers) != "0, 3" || len(r.Heads) != 0 || r.List != (Extent{3, 3}) || r.PromptLen != (Extent{10, 11}) || r.Digest == nil {
		t.Errorf("extent %+v", r)
	}
	if got := *r.Locality.Overlap; got != 0.5 {
		t.Errorf("overlap %v, expected 0.5", got)
	}
	if len(r.Locality.ByLayer) != 2 || *r.Locality.ByLayer[1].Overlap != 0.5 || r.Locality.ByLayer[1].Layer != 3 {
		t.Errorf("by layer %+v", r.Locality.ByLayer)
	}
	// K = 3. The lists of a are {2 3 4} {4 5 6} {6 7 8}, so 1 of 3 repeats. Those of b repeat
	// fully: (2 + 6) of 12.
	if r, err = File(context.Background(), sample(t, trace.OrderRank), Options{TopK: 3}); err != nil || *r.Locality.Overlap != 8.0/12 {
		t.Errorf("K = 3: overlap %v, error %v", r.Locality.Overlap, err)
	}
	if r.Locality.ByLayer != nil {
		t.Error("layers without being asked for")
	}
}

// Both formats can be printed. Lines of the text have no trailing blanks.
func TestForms(t *testing.T) {
	r, err := File(context.Background(), sample(t, trace.OrderIndex), Options{Layers: true})
	fatal.If(t, err)
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	fatal.If(t, r.Text(&b))
	for _, want := range []string{"index, 3, 3", "shared by the layer", "note why", "a test", "By layer", "10 to 11"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), " \n") {
		t.Errorf("blanks at a line's end:\n%q", b.String())
	}
}

// A K above the length of the lists is an error.
func TestTopK(t *testing.T) {
	for _, c := range []struct {
		order string
		k     int
		text  string
	}{{trace.OrderRank, 4, "exceeds M = 3"}, {trace.OrderRank, -1, "at least 1"}, {trace.OrderIndex, 2, "no ranks (order=index)"}} {
		if _, err := File(context.Background(), sample(t, c.order), Options{TopK: c.k}); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("order %s, K = %d: error %v, expected %q", c.order, c.k, err, c.text)
		}
	}
}
