package demand

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// Layer 0 gives block 1 the score 3 and block 2 the score 1. Layer 1 gives block 2 the score 5 and
// block 3 the score 2. Over the request block 2 has 6, block 1 has 3 and block 3 has 2.
func TestWorkedImportance(t *testing.T) {
	stream := func(list []int32, scores []float32) *Delta {
		s := trace.Stream{}
		s.Reset(trace.StreamInfo{PromptLen: 20})
		s.Append(trace.Row{Step: -1, Indices: list, Scores: scores})
		return &Delta{stream: &s, rows: &recorded{&s, 2, 2}}
	}
	a, b := stream([]int32{1, 2}, []float32{3, 1}), stream([]int32{2, 3}, []float32{5, 2})
	request := map[int32]float64{}
	a.addImportance(request, 1)
	b.addImportance(request, 1)
	b.base = 100
	pool := []*Delta{a, b}
	for _, c := range []struct {
		what     string
		streams  []*Delta
		capacity int
		request  map[int32]float64
		want     []int32
	}{
		{"layer 0, one block", pool[:1], 1, nil, []int32{1}},
		{"layer 0, one block, over the request", pool[:1], 1, request, []int32{2}},
		{"layer 0, two blocks, over the request", pool[:1], 2, request, []int32{1, 2}},
		{"a pool, three blocks", pool, 3, nil, []int32{1, 102, 103}},
		{"a pool, three blocks, over the request", pool, 3, request, []int32{1, 2, 102}},
	} {
		if got := mostImportant(c.streams, 1, 0, 20, c.capacity, c.request); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are placed, worked out: %v", c.what, got, c.want)
		}
	}
}
