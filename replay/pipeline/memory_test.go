package pipeline

import (
	"math"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// By hand: blocks of 16 tokens of both heads, 32 entries. A cache has 10 blocks. For each head it
// has additional blocks: one with the 4 sinks, 3 outliers, and two with the 8 tokens of the local
// window, which may cross a boundary. It has no more than the blocks of its context. There are two
// requests of two layers, with entries of 256 B.
func TestResidentBlocks(t *testing.T) {
	for _, c := range []struct{ context, cache, lower float64 }{
		{1000, 320 + 2*(1+2+3)*16, 40 * 32},
		{200, 13 * 32, 13 * 32}, // all 16 tokens of the last block
	} {
		p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{Sink: 4, Local: 8, BlockTokens: 16, SharedHeads: 2}, OutlierBlocks: 3},
			Requests: []Request{{Steps: [][]Counts{{{Resident: 10, Below: 40, SeqLen: int64(c.context)}}}}}}
		r := &runner{profile: p, batch: &Batch{Profile: p, Drawn: []int{0, 0}}}
		r.Scaling, r.mosts = &Scaling{LayerOf: []int{0, 0}, Factor: 1, Heads: 2, EntryBytes: 256}, mosts(p)
		cache, lower := r.resident()
		near(t, "cache", cache, 4*256*c.cache)
		near(t, "below", lower, 4*256*c.lower)
	}
}

// A local window has room at any position, for rows and profiles.
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

// Pinned tokens take memory in whole blocks, and attention reads them as tokens. This holds for
// profiles and for rows, which state whole blocks.
func TestPinnedOfRows(t *testing.T) {
	model := options(t, read(t, realProfile(t)), "sequential").Model
	for _, c := range []struct {
		meta       replay.ProfileMeta
		room, read float64 // tokens of a head
	}{
		{replay.ProfileMeta{Setting: result.Setting{Sink: 4, Local: 64, BlockTokens: 128}}, 3 * 128, 4 + 64},
		{replay.ProfileMeta{Setting: result.Setting{Sink: 4, Local: 64, BlockTokens: 128}, OutlierBlocks: 2}, 5 * 128, 4 + 64 + 2*128},
		{replay.ProfileMeta{Setting: result.Setting{Sink: 4, Local: 64, BlockTokens: 16, SharedHeads: 3}, OutlierBlocks: 3}, (1 + 5 + 3) * 16, 4 + 64 + 3*16},
		{replay.ProfileMeta{Setting: result.Setting{Sink: 1, Local: 1, BlockTokens: 1}, OutlierBlocks: 7}, 9, 9},
	} {
		row := &result.Row{
			Setting: result.Setting{Sink: c.meta.Sink, Local: c.meta.Local, BlockTokens: c.meta.BlockTokens, SharedHeads: c.meta.SharedHeads},
			Steps:   1, PinnedPeakEntries: int64(c.room) * int64(max(1, c.meta.SharedHeads)),
		}
		p, _ := meanStep(row, model)
		for count, meta := range map[string]*replay.ProfileMeta{"profile": &c.meta, "row": &p.Meta} {
			near(t, "room of a "+count, pinnedRoom(meta), c.room)
			near(t, "read of a "+count, pinnedTokens(meta), c.read)
		}
	}
}

// Counts scaled from K = 256 to 2048 would keep 8 × (512 + 1) entries per request. No cache keeps
// more than its context.
func TestCacheIsWithinContext(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	var err error
	if o.Scaling, err = NewScaling(p, o.Model, "nearest", 2048); err != nil {
		t.Fatal(err)
	}
	o.Batch = 3
	const entry, layers = 768., 30.
	for context, want := range map[int64]float64{2048: 2048, 4096: 4096, 4098: 4097, 65536: 4097} { // the 1 is the token that is being decoded
		o.Context = context
		m, err := Need(t.Context(), p, o)
		fatal.If(t, err)
		near(t, "reserve", m.Reserve, o.Reserve*float64(o.Machine.GPU.Memory.Value))
		near(t, "sum", m.GPU, m.Weights+m.Index+m.Cache+m.Staging+m.Reserve)
		each := 3 * entry * layers
		if lower := m.Host / each / float64(o.Machine.GPUs); m.Cache != want*each || lower > float64(context) {
			t.Errorf("context %d: caches of %g and %g entries, expected %g and at most the context", context, m.Cache/each, lower, want)
		}
	}
}

// shaped returns a model with another shape: Llama-like, with a gated feed-forward and separate
// embeddings.
func shaped(count *hardware.Model, layers, kvHeads, ffn, vocabulary hardware.Number) *hardware.Model {
	m := *count
	m.Layers.Value, m.KVHeads.Value, m.FFN.Value, m.Vocabulary.Value = layers, kvHeads, ffn, vocabulary
	m.Entry.Value = hardware.Bytes(2 * kvHeads * m.HeadDim.Value * hardware.HalfBytes)
	return &m
}

// ShadowKV (arXiv 2410.21465), Table 3, prints tokens/s of full attention on one A100 with 80 GB
// for these batches, so all of them fitted. If a tenth of 80·10⁹ bytes were reserved, only one of
// the 11 would fit.
func TestPublishedRunsFit(t *testing.T) {
	machine, llama := parts(t, "a100-80", "llama-3-8b-1048k")
	// The shapes are those of config.json of THUDM/glm-4-9b-chat-1m and 01-ai/Yi-9B-200K.
	glm, yi := shaped(llama, 40, 4, 13696, 151552), shaped(llama, 48, 4, 11008, 64000)
	rows := []struct {
		name           string
		model          *hardware.Model
		context, batch int
	}{
		{"Llama-3-8B-1M", llama, 60, 8}, {"Llama-3-8B-1M", llama, 122, 4}, {"Llama-3-8B-1M", llama, 244, 2},
		{"Llama-3.1-8B", llama, 60, 8}, {"Llama-3.1-8B", llama, 122, 4},
		{"GLM-4-9B-1M", glm, 60, 12}, {"GLM-4-9B-1M", glm, 122, 6}, {"GLM-4-9B-1M", glm, 244, 3},
		{"Yi-9B-200K", yi, 60, 10}, {"Yi-9B-200K", yi, 122, 5}, {"Yi-9B-200K", yi, 244, 2},
	}
	near(t, "weights of Yi-9B, parameters in billions", math.Round(yi.GPUBytes(1)/2e7)/100, 8.83)
	near(t, "weights of GLM-4-9B, parameters in billions", math.Round(glm.GPUBytes(1)/2e7)/100, 9.48)
	decimal, gpu := *machine, *machine.GPU
	gpu.Memory.Value, decimal.GPU = 80e9, &gpu
	for _, c := range []struct {
		machine *hardware.Machine
		reserve float64
		fit     int
	}{{&decimal, 0.1, 1}, {&decimal, 0, 2}, {machine, 0, len(rows)}} {
		fit := 0
		for _, row := range rows {
			p, scaling, err := Decoding(row.context<<10-1, 2, false, row.model)
			fatal.If(t, err)
			m, err := Need(t.Context(), p, Options{Machine: c.machine, Model: row.model, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: row.batch, Reserve: c.reserve})
			switch {
			case err != nil:
				t.Fatal(err)
			case m.Verdict == "":
				fit++
			case c.machine == machine:
				t.Errorf("%s, %d × %dK: %s", row.name, row.batch, row.context, m.Verdict)
			}
		}
		if fit != c.fit {
			t.Errorf("%s with a reserve of %g: %d of %d fit, expected %d", hardware.Bytes(c.machine.GPU.Memory.Value), c.reserve, fit, len(rows), c.fit)
		}
	}
}

// The reserve is either the stated share of all memory, or the sum by hand of driver, context and
// activations.
func TestReserve(t *testing.T) {
	machine, m := parts(t, "a100-80", "llama-3-8b-1048k")
	p, scaling, err := Decoding(1000, 2, false, m)
	fatal.If(t, err)
	reserve := func(change func(*Options)) float64 {
		o := Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 10}
		change(&o)
		need, err := Need(t.Context(), p, o)
		fatal.If(t, err)
		near(t, "sum", need.GPU, need.Weights+need.Cache+need.Reserve)
		return need.Reserve
	}
	near(t, "stated", reserve(func(o *Options) { o.Reserve = 0.05 }), 0.05*81920*(1<<20))
	// Input, residual and output of a layer, queries and attention's output, K and V, gate and up,
	// and logits of 2 and of 4 B.
	const each = 2*(3*4096+2*4096+2*1024+2*14336) + 6*128256
	near(t, "estimated", reserve(func(*Options) {}), 1.2e9+10*each)
	near(t, "3 positions", reserve(func(o *Options) { o.Positions, o.Accept = 3, 1 }), 1.2e9+30*each)
	near(t, "a GPU that does not say", reserve(func(o *Options) {
		own, gpu := *machine, *machine.GPU
		gpu.Reserved, own.GPU = hardware.Fact[hardware.Bytes]{}, &gpu
		o.Machine = &own
	}), 1e9+10*each)
}

// Two layers hold 5 and 1 blocks, then 2 and 6. Separate caches take 5 and 6. A shared cache is
// fullest at the second step, with 2 and 6.
func TestPooledMemory(t *testing.T) {
	counts := func(resident, lower, length int64) Counts {
		return Counts{Resident: resident, Below: lower, SeqLen: length}
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

// ESS's Table 2 prints these ratios with its batches. 54.3 requests of 32K fit whole, and a quarter
// as many of 128K. The indexer's share is 132 of 788 B.
func TestCacheRatio(t *testing.T) {
	for _, c := range []struct{ full, batch, printed float64 }{
		{54.3, 52, 1}, {54.3, 64, 0.82}, {54.3, 96, 0.48}, {54.3, 128, 0.31}, {54.3, 160, 0.21}, {54.3 / 4, 13, 1}, {54.3 / 4, 40, 0.2}, {54.3 / 4, 54, 0.1},
	} {
		if r := CacheRatio(c.full, c.batch, 132./788); math.Abs(r-c.printed) > 0.01 {
			t.Errorf("batch %g: ratio %.3f, the paper prints %g", c.batch, r, c.printed)
		}
	}
}
