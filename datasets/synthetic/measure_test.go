package synthetic

import (
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// A block that comes back is known, even if its last demand was in the first row. A block that
// comes for the first time is unknown and strange. One that comes after longTime rows is only
// strange.
func TestMeasureArrivals(t *testing.T) {
	s := new(trace.Stream)
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 100})
	demand := map[int]int32{0: 5, 1: 6, 2: 5, longTime + 2: 7, longTime + 3: 6}
	for step := range longTime + 4 {
		x, ok := demand[step]
		if !ok {
			x = 8
		}
		s.Append(trace.Row{Step: int32(step), Indices: []int32{x}})
	}
	m := &measure{topK: 1}
	m.stream(s)
	// 6 at step 1, 8 at 3 and 7 at 26 come for the first time. 5 at 2 comes back after 2 rows, 6 at 27
	// after 26.
	if m.entered != 5 || m.counted != 5 || m.unknown != 3 || m.strange != 4 {
		t.Errorf("%d entered, %d counted, %d unknown, %d strange, expected 5, 5, 3, 4", m.entered, m.counted, m.unknown, m.strange)
	}
}
