package streamingllm

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "sink=0", "sink=9"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// The budget holds one sink and two recent blocks. Token t + prompt - 1 leaves the local window at
// step t.
func TestHistory(t *testing.T) {
	policytest.LossyHistory(t, Entry, "sink=1", `
capacity 3
prompt 6
prompt |     | 1 2   # 0 to 4 are held, 5 is the local window; 0, 3 and 4 stay
0 4 2  | 2   | 3     # 5 is born: 0, 4, 5
3 5    | 3   | 4
4 0 2  | 2 4 | 5     # 6 and 7 were born
`)
}

// A budget of one block has no room for a sink.
func TestNoRoomForSinks(t *testing.T) {
	policytest.LossyHistory(t, Entry, "sink=4", `
capacity 1
prompt 3
prompt |   | 0
0 1    | 0 | 1
`)
}

// A budget that is no larger than the sinks still has room for one recent block.
func TestRoomForOneRecent(t *testing.T) {
	policytest.LossyHistory(t, Entry, "sink=4", `
capacity 3
prompt 6
prompt |   | 2 3 # 0 and 1 of the four sinks, and 4
0 2 4  | 2 | 4
`)
}

// Three of four sinks are pinned and outside the budget of two blocks, so 3 is the fourth. If more
// are pinned, the budget has no sink.
func TestPinnedSinks(t *testing.T) {
	for first, want := range map[int][]int32{3: {4, 5}, 4: {4, 5}, 6: {6, 7}} {
		p := &Policy{Sink: 4}
		fatal.If(t, p.Reset(&policies.Scope{Capacity: 2}))
		p.Prompt(&policies.Prompt{First: first, End: 9, Blocks: 10})
		if got := p.Evict(2, nil); !slices.Equal(got, want) {
			t.Errorf("of %d pinned blocks: drops %v first, want %v", first, got, want)
		}
	}
}
