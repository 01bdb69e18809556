package streamingllm

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for _, options := range []string{"", "sink=0", "sink=9"} {
		policytest.RunLossy(t, Entry, options)
	}
}

// One sink and two recent blocks. Token t + prompt - 1 leaves the local window at step t.
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
