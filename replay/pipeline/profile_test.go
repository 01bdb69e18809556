package pipeline

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay"
)

// A layer's counts are the sums of its heads', context and positions those of one; the tier
// below has its own. Blocks of 2 tokens: head 1 moved 3 blocks for 2 misses, one of them
// ahead, which was no part of a run; of the tier's 2 misses one was not taken whole.
func TestHeadsAddUp(t *testing.T) {
	two := "2x"
	row := func(head, tier, demand, misses, runs, moved, resident int32) replay.ProfileRow {
		r := replay.ProfileRow{RequestID: "r", Head: &head, Policy: "lru", Capacity: &two, Tier: tier, Step: 4, SeqLen: 15,
			Demand: demand, Misses: misses, MissRuns: runs, Moved: int64(moved), Resident: resident, Positions: 1}
		if tier > 0 {
			r.Above = "lru@2x"
		}
		return r
	}
	other := row(0, 0, 9, 9, 9, 18, 9)
	other.Policy = "fifo"
	below := row(0, 1, 9, 9, 9, 18, 9)
	below.Above = "fifo@2x"
	rows := []replay.ProfileRow{row(0, 0, 10, 4, 3, 8, 20), other, row(0, 1, 4, 2, 1, 3, 40), below, row(1, 0, 11, 2, 1, 6, 22), row(1, 1, 3, 1, 1, 2, 44)}
	p, err := ReadProfile(t.Context(), writeRows(t, rows, `{"schema":2,"topk":12,"block_tokens":2,"shared_heads":1}`), Cell{"lru", "2x"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{ID: "r", Steps: [][]Counts{{{Demand: 21, Misses: 4 + 3, Runs: 3 + 2, Moved: 14, Resident: 42,
		SSDMisses: 3, SSDMoved: 5, SSDRuns: 2, Below: 84, Positions: 1, SeqLen: 15, Prompt: 10}}}}}
	if !reflect.DeepEqual(p.Requests, want) || p.Heads != 2 || !p.Tiered {
		t.Errorf("%+v of %d heads, expected %+v", p.Requests, p.Heads, want)
	}
	rows[0].MissRuns = 5
	if _, err := ReadProfile(t.Context(), writeRows(t, rows, `{"schema":2,"topk":12}`), Cell{"lru", "2x"}); err == nil || !strings.Contains(err.Error(), "4 misses in 5 runs of a demand of 10") {
		t.Errorf("more runs than misses: %v", err)
	}
}
