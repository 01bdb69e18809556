package kvdrive

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// Contexts in tokens, named as in the paper.
const (
	k60  = 61_440
	k64  = 65_536
	k120 = 122_880
	k128 = 131_072
	k240 = 245_760
)

// budget is K at 120K in the paper's comparisons (Table 3).
const budget = 2048

// heads holds the counts of one request in each head of a layer, and the form of its entries, empty
// for the model's own.
type heads struct {
	demand, misses, resident int64
	entry                    string
}

// on returns the output of kvreplay time for a batch on the L20 server.
func (b *bench) on(m *hardware.Model, batch int, context int64, schedule, selection string, h heads) *pipeline.Result {
	n := int64(m.KVHeads.Value)
	r := reproduce.Request{Context: context, Demand: n * h.demand, Misses: n * h.misses, Resident: n * h.resident}
	p, scaling := r.Profile(m)
	o := pipeline.Options{Machine: b.l20, Model: m, Batch: batch, Threads: 16, Depth: 64, Scaling: scaling}
	o.Entry = reproduce.Must(operator.ParseEntry(cmp.Or(h.entry, "auto"), m))
	return b.Price(p, schedule, selection, o)
}

// bytes computes the figures that follow from shapes: KV of a batch, transfers of a step, sizes of
// indices.
func (b *bench) bytes() {
	d := b.Section("bytes")
	kv := b.on(b.llama, 8, 100_000, "gpu", "", heads{demand: budget}).Memory.Cache
	one := b.on(b.llama, 1, k128, "gpu", "", heads{demand: budget}).Memory.Cache
	fetched := b.on(b.llama, 1, k64, "sequential", "", heads{demand: k64 / 16, misses: k64 / 16}).H2D
	d.Set("KV of 100K", kv/1e9)
	d.Set("KV of 128K", one/1e9)
	d.Set("×0", fetched/1e6)
	d.Set("×0 at least", fetched/1e6)
	d.Let("GB", kv/1e9)
	d.Let("GiB", kv/(1<<30))
	d.Let("GiB of 128K", one/(1<<30))

	index := func(selection string) float64 {
		return b.on(b.llama, 8, k120, "sequential", selection, heads{demand: budget}).Memory.Index
	}
	d.Set("Quest over KVDrive", index("minmax:tokens=8")/index(kvdrives))
	d.Set("Quest over ShadowKV", index("minmax:tokens=8")/index("mean:tokens=8"))
	d.Set("Quest, pages of 16", index("minmax:tokens=16")/index(kvdrives))
}

// system is a system in GPU memory (Fig. 20).
type system struct {
	name, schedule, selection string
	window                    int64 // kept entries, in units of K
	entry                     string
}

// systems are in the order of the memory that they take, as in the text.
var systems = []system{
	{"FlexGen", "flexgen", "keys", 0, ""},
	{"KVDrive ×1", "sfc:parts=1", kvdrives, 1, ""},
	{"KVDrive ×2", "sfc:parts=1", kvdrives, 2, ""},
	{"Quest", "sequential", "minmax:tokens=8", 0, ""},
	{"ShadowKV", "sequential", "mean:tokens=8", 1, "v:rank=160"},
	{"Original", "dense", "", 0, ""},
}

// gpuMemory returns the GPU memory of a system in bytes, without staging and reserve, which Fig. 20
// does not show. Original has no index. FlexGen has one layer at a time. kvreplay's schedule has
// two, to fetch one while it reads the other.
func (b *bench) gpuMemory(m *hardware.Model, sys *system) float64 {
	mem := b.on(m, 8, k120, sys.schedule, sys.selection, heads{demand: budget, resident: sys.window * budget, entry: sys.entry}).Memory
	switch sys.schedule {
	case "dense":
		return mem.Weights + mem.Cache
	case "flexgen":
		return mem.Weights + mem.Cache/2
	}
	return mem.Weights + mem.Cache + mem.Index
}

// footprints returns the bytes of GPU memory of Llama-3-8B with all KV (weights and cache), and as
// KVDrive ×2 at 1.56 %. has is the memory of the L20. None includes the driver's memory.
func (b *bench) footprints(batch int, context int64) (original, own, has float64) {
	r := b.on(b.llama, batch, context, "dense", "", heads{demand: budget}).Memory
	own2x := heads{demand: context / 64, resident: 2 * context / 64}
	k := b.on(b.llama, batch, context, "sfc:parts=1", kvdrives, own2x).Memory
	return r.Weights + r.Cache, k.GPU - k.Reserve, k.GPUHas
}

// memory computes Fig. 20 and the systems that run out of memory.
func (b *bench) memory() {
	d := b.Section("fig-20")
	for _, name := range []string{"llama-3-8b-1048k", "qwen3-14b", "phi-4-mini"} {
		before := 0.
		for i := range systems {
			sum := b.gpuMemory(b.Model(name), &systems[i])
			if i > 0 {
				row := reproduce.Row{"model": name, "less": systems[i-1].name, "more": systems[i].name}
				d.Holds("order", sum/1e9, before < sum, row)
			}
			before = sum
		}
	}
	for _, cell := range b.Rows("cells") {
		original, own, has := b.footprints(cell.Int("batch"), int64(cell.Int("context")))
		d.Holds("Original", original/1e9, original > has, cell)
		d.Holds("KVDrive", own/1e9, own < has, cell)
	}
	for i, sys := range systems {
		sum := b.gpuMemory(b.Model("qwen3-14b"), &systems[i])
		line := "exceeds"
		if i < 3 {
			line = "fits"
		}
		fits := sum < float64(b.l20.GPU.Memory.Value)
		d.Holds(line, sum/1e9, fits == (line == "fits"), reproduce.Row{"system": sys.name})
	}
	d.Let("KV", 8*float64(k120)*float64(b.llama.Entry.Value)*float64(b.llama.Layers.Value)/1e9)
}

// served describes the decoding of a system (Table 1, section 9.1): the entries that it keeps
// between steps, its selection of the Top-K and its schedule.
type served struct{ name, policy, selection, schedule string }

// sparse are the systems with sparse attention, slowest first as in the paper. MagicPIG and PQCache
// select by hashes and codes, which are not priced.
var sparse = []served{
	{"Quest", "window:0", "minmax:tokens=8", "sequential"},
	{"ShadowKV", "window:1", "mean:tokens=8", "sequential"},
	{"KVDrive", "window:2", kvdrives, "sfc"},
}

// decode prices a system with the misses of a trace.
func (b *bench) decode(f *source, sys served, o pipeline.Options) *pipeline.Result {
	return b.price(b.profile(f, sys.policy, "", "", 0), sys.schedule, sys.selection, o)
}

// throughput computes Fig. 13: FlexGen's tokens/s and the order of systems. Each has the misses of
// a trace under its cache.
func (b *bench) throughput() {
	d := b.Section("fig-13")
	for _, cell := range b.Rows("cells") {
		batch, context := cell.Int("batch"), int64(cell.Int("context"))
		r := b.on(b.llama, batch, context, "flexgen", "keys", heads{demand: budget})
		line := "FlexGen"
		if context >= k240 { // limited by the link, which carries more per second than shorter contexts move
			line = "FlexGen, long"
		}
		d.Set(line, r.Tokens, cell)
		d.Set("rate of copies", r.H2D/float64(batch)/1e9, cell)
	}
	f := b.typical(d)
	if f == nil {
		return
	}
	before, rate := "FlexGen", b.on(b.llama, 4, k120, "flexgen", "keys", heads{demand: budget}).Tokens
	for _, sys := range sparse {
		r := b.decode(f, sys, pipeline.Options{Batch: 4, Context: k120})
		d.Holds("faster", r.Tokens, r.Tokens > rate, reproduce.Row{"system": sys.name, "before": before})
		if sys.name == "KVDrive" {
			gain := 100 * (r.Tokens/rate - 1)
			d.Holds("gain", gain, gain > 0 && gain <= 70)
		}
		before, rate = sys.name, r.Tokens
	}
	b.elsewhere(d, f)
}

// elsewhere adds the gain on the paper's other servers (Fig. 14). Batch and context fit on the RTX
// 4090.
func (b *bench) elsewhere(d *reproduce.Draft, f *source) {
	for _, name := range []string{"h20", "rtx4090"} {
		o := pipeline.Options{Machine: b.Machine(name), Batch: 2, Context: k60}
		quest, shadow, own := b.decode(f, sparse[0], o), b.decode(f, sparse[1], o), b.decode(f, sparse[2], o)
		if !own.Fits() {
			reproduce.Check(fmt.Errorf("%s: %s", name, own.Memory.Verdict))
		}
		best := slices.Max([]float64{quest.Tokens, shadow.Tokens})
		o.Threads = 96 // cores of the H20 server (section 9.1)
		more := b.decode(f, sparse[2], o).Tokens / best
		d.Set(name, own.Tokens/best, reproduce.Row{"gain": more, "threads": o.Threads})
	}
}

func (b *bench) breakdown() {
	d := b.Section("fig-4")
	f := b.typical(d)
	if f == nil {
		return
	}
	for _, sys := range sparse[:2] {
		before, sum := 0., 0.
		options := []pipeline.Options{{Batch: 1, Context: k60}, {Batch: 1, Context: k120}, {Batch: 4, Context: k120}}
		for _, o := range options {
			r := b.decode(f, sys, o)
			share := 100 * (r.Causes[schedule.Selecting] + r.Causes[schedule.Fetch]) / r.Mean
			if before > 0 {
				row := reproduce.Row{"system": sys.name, "batch": o.Batch, "K": o.Context / 1024}
				d.Holds("grows", share, share > before, row)
			}
			before, sum = share, sum+share
		}
		d.Set("half", sum/3, reproduce.Row{"system": sys.name})
	}
}
