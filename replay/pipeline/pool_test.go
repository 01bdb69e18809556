package pipeline

import (
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/replay"
)

// Two layers hold 5 and 1 blocks, then 2 and 6: alone they take 5 and 6; where they share a
// cache it is fullest at the second step, with 2 and 6.
func TestPooledMemory(t *testing.T) {
	counts := func(resident, below, length int64) Counts {
		return Counts{Resident: resident, Below: below, SeqLen: length}
	}
	p := &Profile{Requests: []Request{{ID: "a", Steps: [][]Counts{{counts(5, 9, 10), counts(2, 1, 11)}, {counts(1, 8, 10), counts(6, 2, 11)}}}}}
	for pool, want := range map[replay.Pool][]most{
		replay.PoolNone:    {{5, 9, 11}, {6, 8, 11}},
		replay.PoolLayer:   {{5, 9, 11}, {6, 8, 11}},
		replay.PoolRequest: {{2, 9, 11}, {6, 8, 11}},
	} {
		p.Meta.Pool = string(pool)
		if got := mosts(p); !reflect.DeepEqual(got, [][]most{want}) {
			t.Errorf("pool %q: %v, worked out: %v", pool, got, want)
		}
	}
}
