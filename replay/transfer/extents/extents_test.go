package extents

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/trace"
)

// ofPath surveys the trace at path.
func ofPath(ctx context.Context, path string, o Options) ([]Row, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return File(ctx, f, o)
}

// write makes a trace of two layers with one stream each, for the given requests or a single one.
// Windows and steps demand the lists in turn.
func write(t *testing.T, windows int, lists [][]int32, steps int, requests ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	sink, local := 0, 1
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: len(lists[0]), Candidates: len(lists[0]), BlockTokens: 1, Sink: &sink, Local: &local})
	fatal.If(t, err)
	if requests == nil {
		requests = []string{"r"}
	}
	for _, request := range requests {
		for layer := range int32(2) {
			var s trace.Stream
			s.Reset(trace.StreamInfo{Key: trace.Key{Request: request, Layer: layer, Head: trace.NoHead}, PromptLen: 40})
			for step := int32(-windows); step < int32(steps); step++ {
				s.Append(trace.Row{Step: step, Indices: lists[(int(step)+windows)%len(lists)]})
			}
			fatal.If(t, w.Write(&s))
		}
	}
	fatal.If(t, w.Close())
	return path
}

// By hand: lists 3 9 17 and 4 5 30 in turn, two windows of each, four steps per layer. By stream, 3
// 9 17 are three reads and 4 5 30 two. With one head, layer order equals stream order. By token,
// neighbours are two apart, so 4 5 30 are three reads. Packed, each list is one read. In extents of
// 4, list 3 9 17 lies in extents 0, 2, 4 and list 4 5 30 in 1, 7.
func TestSurvey(t *testing.T) {
	path := write(t, 4, [][]int32{{3, 9, 17}, {4, 5, 30}}, 4)
	rows, err := ofPath(context.Background(), path, Options{Extents: []int64{1, 4}})
	fatal.If(t, err)
	want := map[string][2]int64{ // reads and blocks over 2 layers × 4 steps
		"token 1": {4*3 + 4*3, 24}, "layer 1": {4*3 + 4*2, 24}, "stream 1": {4*3 + 4*2, 24}, "stream, packed 1": {8, 24},
		// Packed: 3 9 17 are at 0 1 2, one extent. 4 5 30 are at 3 4 5, extents 0 and 1, one read.
		"stream 4": {4*3 + 4*2, 4*12 + 4*8}, "layer 4": {4*3 + 4*2, 4*12 + 4*8}, "stream, packed 4": {8, 4*4 + 4*8},
	}
	for _, r := range rows {
		key := r.Order + " " + string(rune('0'+r.Extent))
		if w, ok := want[key]; ok && (r.Reads != w[0] || r.Blocks != w[1]) {
			t.Errorf("%s: %d reads of %d blocks, expected %v", key, r.Reads, r.Blocks, w)
		}
		if r.Steps != 8 || r.Demand != 24 || r.Learned != 8 {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if len(rows) != 8 {
		t.Errorf("%d rows", len(rows))
	}
}

// Pinned blocks are not read. Sink 2 pins blocks 0 and 1, and local 4 the last four tokens. At step
// 0 with 40 tokens these begin at 36, and at the next two steps, with 41 and 42 tokens, at 37 and
// 38.
func TestPinsAreNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	sink, local := 2, 4
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderIndex, TopK: 5, Candidates: 5, BlockTokens: 1, Sink: &sink, Local: &local})
	fatal.If(t, err)
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 39})
	for step := int32(-1); step < 3; step++ { // contexts of 39 to 42 tokens
		s.Append(trace.Row{Step: step, Indices: []int32{0, 1, 2, 36, 37}})
	}
	fatal.If(t, w.Write(&s))
	fatal.If(t, w.Close())
	rows, err := ofPath(context.Background(), path, Options{Extents: []int64{1}})
	fatal.If(t, err)
	for _, r := range rows { // steps 0 to 2 read 2, then 2 and 36, then 2, 36 and 37, a run of two
		if r.Order == "stream" && (r.Steps != 3 || r.Demand != 6 || r.Reads != 5 || r.Blocks != 6) {
			t.Errorf("%+v", r)
		}
	}
	if _, err := ofPath(context.Background(), path, Options{TopK: 4}); err == nil || !strings.Contains(err.Error(), "the trace has no ranks (order=index), expected its K, 5") {
		t.Errorf("fewer of lists without ranks: %v", err)
	}
}

// By hand, with blocks of 4 tokens: sink 5 pins blocks 0 and 1, and local 6 of 50 tokens pins
// blocks 11 and 12. The remaining blocks among the first five of a list are ascending, in any rank
// order.
func TestDemand(t *testing.T) {
	sink, local := 5, 6
	s := &survey{topK: 5, meta: &trace.Meta{BlockTokens: 4, Sink: &sink, Local: &local}}
	var st trace.Stream
	st.Reset(trace.StreamInfo{PromptLen: 49})
	for _, c := range []struct{ list, want []int32 }{
		{[]int32{12, 11, 10, 3, 2, 8}, []int32{2, 3, 10}},
		{[]int32{7, 1, 0, 2}, []int32{2, 7}}, // a list shorter than five
		{[]int32{1, 0, 12}, nil},
	} {
		st.Append(trace.Row{Step: 0, Indices: c.list})
		if got := s.demand(&st, st.Rows-1); !slices.Equal(got, c.want) {
			t.Errorf("list %v: demand %v, expected %v", c.list, got, c.want)
		}
	}
}

// A drive holds the layers of all requests, each once. By token the blocks of two layers alternate,
// so 4 5 30 are three reads. Extents of two hold a token, so they need two reads. By layer and
// stream they are two reads, and packed one.
func TestRequestsShareLayers(t *testing.T) {
	rows, err := ofPath(context.Background(), write(t, 4, [][]int32{{4, 5, 30}}, 4, "q", "r"), Options{Extents: []int64{1, 2}})
	fatal.If(t, err)
	for _, r := range rows {
		want := map[string]int64{"token": 4 - r.Extent, "layer": 2, "stream": 2, "stream, packed": 1}[r.Order]
		if r.Steps != 2*2*4 || r.Reads != want*r.Steps {
			t.Errorf("%s, extents of %d: %d reads of %d steps, expected %d a step", r.Order, r.Extent, r.Reads, r.Steps, want)
		}
	}
}

func TestErrors(t *testing.T) {
	cold := write(t, 0, [][]int32{{3, 9, 17}}, 4)
	for name, c := range map[string]struct {
		path string
		o    Options
		want string
	}{
		"no windows": {cold, Options{}, "no prompt windows"},
		"K":          {cold, Options{TopK: 9, History: 1}, "topk 9, expected 1 to M, 3 entries"},
		"negative K": {cold, Options{TopK: -1, History: 1}, "topk -1"},
		"extent":     {cold, Options{History: 1, Extents: []int64{0}}, "extent of 0 blocks"},
		"large":      {cold, Options{History: 1, Extents: []int64{1 << 40}}, "extent of 1099511627776 blocks, expected at least 1 and at most 1048576"},
		"history":    {cold, Options{History: -1}, "history -1"},
		"all steps":  {cold, Options{History: 4}, "history of 4 decode steps leaves none to count: expected fewer than the trace's 4"},
		"no file":    {"nowhere.parquet", Options{}, "nowhere.parquet"},
	} {
		if _, err := ofPath(context.Background(), c.path, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", name, err, c.want)
		}
	}
	if rows, err := ofPath(context.Background(), cold, Options{History: 1}); err != nil || rows[0].Steps != 6 {
		t.Errorf("with a history of one step: %+v, %v", rows, err)
	}
	warm := write(t, 2, [][]int32{{3, 9, 17}}, 4)
	if rows, err := ofPath(context.Background(), warm, Options{History: 2}); err != nil || rows[0].Steps != 2*2 || rows[0].Learned != 2*4 {
		t.Errorf("with two windows and a history of two steps: %+v, %v", rows, err)
	}
	if _, err := ofPath(context.Background(), warm, Options{History: 4}); err == nil || !strings.Contains(err.Error(), "leaves none to count: expected fewer than the trace's 4") {
		t.Errorf("with windows and a history of all steps: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ofPath(ctx, cold, Options{History: 1}); err == nil {
		t.Error("a cancelled survey ends without an error")
	}
}

// On a bundled trace of real selections, partitions need fewer reads than token order. The packing
// learned from the windows also helps in the decode steps.
func TestRealTrace(t *testing.T) {
	rows, err := ofPath(context.Background(), "../../../datasets/bundled/smollm2_multi_news_8k.parquet", Options{Extents: []int64{1}})
	fatal.If(t, err)
	reads := map[string]float64{}
	for _, r := range rows {
		reads[r.Order] = float64(r.Reads) / float64(r.Demand)
	}
	if !(reads["stream, packed"] < reads["stream"] && reads["stream"] < reads["token"]) {
		t.Errorf("reads a block: %v", reads)
	}
	t.Logf("reads a demanded block: %v", reads)
}

// Packed by its windows, each list of the survey's test is one read. In blocks of 2 tokens, the lists
// are 1 4 8 and 2 15.
func TestPacking(t *testing.T) {
	f, err := trace.Open(write(t, 4, [][]int32{{3, 9, 17}, {4, 5, 30}}, 4))
	fatal.If(t, err)
	defer f.Close()
	for unit, lists := range map[int][][]int32{1: {{3, 9, 17}, {4, 5, 30}}, 2: {{1, 4, 8}, {2, 15}}} {
		pack, err := Packing(t.Context(), f, 3, unit, false)
		fatal.If(t, err)
		order, err := pack(trace.Key{Request: "r", Layer: 1, Head: trace.NoHead}, 40)
		fatal.If(t, err)
		p := transfer.NewPlacement(transfer.ByStream, 1, 1, 40)
		fatal.If(t, p.Order(0, 0, order))
		for _, list := range lists {
			if reads, blocks := transfer.Extents(p.Places(0, 0, list, nil), 1); reads != 1 || blocks != int64(len(list)) {
				t.Errorf("blocks of %d: %v takes %d reads of %d blocks", unit, list, reads, blocks)
			}
		}
		if _, err := pack(trace.Key{Request: "s", Head: trace.NoHead}, 40); err == nil || !strings.Contains(err.Error(), `has no request "s" layer 0`) {
			t.Errorf("an unknown request: %v", err)
		}
	}
}
