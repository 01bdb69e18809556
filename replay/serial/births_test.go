package serial

import (
	"fmt"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/trace"
)

// A local window of 4 leaves token 6 behind at step 0, in a context of 11 tokens, then one more per
// step. The first accesses of these tokens are births. Those of earlier tokens are not. Blocks
// pinned by a sink or the window are not accessed.
func TestBirths(t *testing.T) {
	var s trace.Stream
	s.Reset(trace.StreamInfo{Key: trace.Key{Request: "r", Head: trace.NoHead}, PromptLen: 10})
	for step, list := range [][]int32{{0, 5, 6, 7}, {5, 6, 7, 8}, {6, 7, 8, 2}} {
		s.Append(trace.Row{Step: int32(step), Indices: list})
	}
	r := result.Row{Setting: result.Setting{Warmup: "cold", TopK: 4, BlockTokens: 1, Sink: 1, Local: 4}}
	want := "[{0 5 false} {0 6 true} {1 5 false} {1 6 false} {1 7 true} {2 6 false} {2 7 false} {2 8 true} {2 2 false}]"
	if got := fmt.Sprint(flatten(nil, &s, &r)); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	n, err := play("lru", 2, flatten(nil, &s, &r))
	if err != nil || n != (tallied{accesses: 9, misses: 5, births: 3}) {
		t.Errorf("%+v, %v", n, err)
	}
}
