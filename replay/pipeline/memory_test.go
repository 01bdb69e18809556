package pipeline

import (
	"testing"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/replay"
)

// By hand: blocks of 16 tokens of both heads, 32 entries. A cache has 10 blocks and, beside
// them, of each head a block with the 4 sinks, two with the 8 tokens of the local window, which
// may begin in one and end in the next, and 3 outliers; no more than the blocks of its context.
// Two requests of two layers, entries of 256 B.
func TestResidentBlocks(t *testing.T) {
	for _, c := range []struct{ context, cache, below float64 }{
		{1000, 320 + 2*(1+2+3)*16, 40 * 32},
		{200, 13 * 32, 13 * 32}, // of the last block all 16 tokens
	} {
		p := &Profile{Meta: replay.ProfileMeta{Sink: 4, Local: 8, Outliers: 3, BlockTokens: 16, SharedHeads: 2},
			Requests: []Request{{Steps: [][]Counts{{{Resident: 10, Below: 40, SeqLen: int64(c.context)}}}}}}
		r := &runner{profile: p, batch: &Batch{Profile: p, Drawn: []int{0, 0}}}
		r.options.Scaling, r.options.mosts = &Scaling{LayerOf: []int{0, 0}, Factor: 1, Heads: 2, EntryBytes: 256}, mosts(p)
		cache, below := r.resident()
		near(t, "cache", cache, 4*256*c.cache)
		near(t, "below", below, 4*256*c.below)
	}
}

// A local window has room for what it touches wherever it begins, in a row as in a profile.
func TestLocalRoom(t *testing.T) {
	for _, block := range []int{1, 2, 5, 16} {
		for local := range 4 * block {
			most := 0
			for begin := range block {
				if end := begin + local; local > 0 {
					most = max(most, (end+block-1)/block*block)
				}
			}
			if got := localRoom(local, block); got != most {
				t.Errorf("a window of %d in blocks of %d: room for %d tokens, expected %d", local, block, got, most)
			}
		}
	}
}

// What is pinned takes memory in whole blocks and is read by attention as tokens, in a row,
// which states whole blocks, as in a profile.
func TestPinnedOfRows(t *testing.T) {
	model := options(t, read(t, realProfile(t)), "sequential").Model
	for _, c := range []struct {
		meta       replay.ProfileMeta
		room, read float64 // tokens of a head
	}{
		{replay.ProfileMeta{Sink: 4, Local: 64, BlockTokens: 128}, 3 * 128, 4 + 64},
		{replay.ProfileMeta{Sink: 4, Local: 64, BlockTokens: 128, Outliers: 2}, 5 * 128, 4 + 64 + 2*128},
		{replay.ProfileMeta{Sink: 4, Local: 64, BlockTokens: 16, Outliers: 3, SharedHeads: 3}, (1 + 5 + 3) * 16, 4 + 64 + 3*16},
		{replay.ProfileMeta{Sink: 1, Local: 1, BlockTokens: 1, Outliers: 7}, 9, 9},
	} {
		row := &metrics.Row{Steps: 1, Sink: c.meta.Sink, Local: c.meta.Local, BlockTokens: c.meta.BlockTokens, SharedHeads: c.meta.SharedHeads,
			PinnedPeakEntries: int64(c.room) * int64(max(1, c.meta.SharedHeads))}
		p, _ := meanStep(row, model)
		for of, meta := range map[string]*replay.ProfileMeta{"profile": &c.meta, "row": &p.Meta} {
			near(t, "room of a "+of, pinnedRoom(meta), c.room)
			near(t, "read of a "+of, pinnedTokens(meta), c.read)
		}
	}
}

// Counts that are scaled from K = 256 to 2048 would keep 8 × (512 + 1) entries of a request,
// and no cache keeps more than its context has.
func TestCacheIsWithinContext(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	var err error
	if o.Scaling, err = NewScaling(p, o.Model, "nearest", 2048); err != nil {
		t.Fatal(err)
	}
	o.Batch = 3
	const entry, layers = 768., 30.
	for context, want := range map[int64]float64{2048: 2048, 4096: 4096, 4098: 4097, 65536: 4097} { // the 1 is the token being generated
		o.Context = context
		m, err := Need(t.Context(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "reserve", m.Reserve, o.Reserve*float64(o.Machine.GPU.Memory.Value))
		near(t, "sum", m.GPU, m.Weights+m.Index+m.Cache+m.Staging+m.Reserve)
		each := 3 * entry * layers
		if below := m.Host / each / float64(o.Machine.GPUs); m.Cache != want*each || below > float64(context) {
			t.Errorf("context %d: caches of %g and %g entries, expected %g and at most the context", context, m.Cache/each, below, want)
		}
	}
}
