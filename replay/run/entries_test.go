package run

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The moved entries of an example are worked out by hand. Two heads share a cache of one block, and
// a block holds ten tokens of each head: twenty entries. block-lfu fetches missed entries, and fills
// the cache with the block that has most of them. lru fetches whole blocks.
func TestMoved(t *testing.T) {
	meta := &trace.Meta{Version: 1, Order: trace.OrderRank, TopK: 3, Candidates: 3, BlockTokens: 1}
	lists := [2][][]int32{
		{{10, 11, 20}, {12, 20, 21}},
		{{10, 30, 31}, {10, 11, 40}},
	}
	heads := make([]trace.Stream, 2)
	for h := range heads {
		heads[h].Reset(trace.StreamInfo{Key: trace.Key{Head: int32(h)}, PromptLen: 100})
		for step, list := range lists[h] {
			heads[h].Append(trace.Row{Step: int32(step), Indices: list})
		}
	}
	p := testPlan(meta, 3, 3, setting.Warmup{Kind: setting.WarmupCold})
	p.layout, p.pins.BlockTokens = demand.Layout{Factor: 10, Heads: 2, Positions: 1}, 10
	j := &demand.Joiner{Layout: p.layout, K: 3, M: 3, Ranks: true, Pins: p.pins}
	s, err := j.Join(heads)
	fatal.If(t, err)
	var d demand.Delta
	fatal.If(t, d.Build(s, demand.Options{K: 3, M: 3, Pins: p.pins, Meta: meta, Joined: j}, nil))
	for name, want := range map[string][]struct{ picked, missed, fetched, staged int64 }{
		// Step 0 demands 3 entries of block 1: 10 and 11 of head 0, 10 of head 1. It demands one of
		// block 2 and two of block 3. Step 1 demands 3 entries of block 1: 12 of head 0, 10 and 11 of
		// head 1. It demands two of block 2 and one of block 4.
		"block-lfu": {{6, 6, 6 + 20, 6}, {6, 3, 3, 3}},
		"lru":       {{6, 6, 60, 40}, {6, 3, 40, 40}},
	} {
		spec, err := all.Table().Parse(name)
		fatal.If(t, err)
		step := 0
		look := func(r *cache.StepReport) {
			w := want[step]
			if r.DemandEntries != w.picked || r.MissedEntries != w.missed || r.Moved != w.fetched {
				t.Errorf("%s, step %d: %d entries demanded, %d missed, %d moved, worked out %+v", name, step, r.DemandEntries, r.MissedEntries, r.Moved, w)
			}
			step++
		}
		counts, err := cache.NewCell(spec.Make()).Run(&d, cache.Start{Capacity: 1, Ranks: true, Unit: p.layout.Unit(p.pins)}, look)
		fatal.If(t, err)
		if step != len(want) || counts.StagingPeak != max(want[0].staged, want[1].staged) {
			t.Errorf("%s: %d steps, staging %d entries, worked out %+v", name, step, counts.StagingPeak, want)
		}
	}
}
