// Package ess reproduces ESS, which offloads the latent cache of DeepSeek-V3.2-Exp. It covers the
// memory planner, Table 2, the overlap of Fig. 7, and the locality of Figs. 2, 4, 5, 8 and 9 on
// synthetic and real traces. README.md states the findings.
package ess

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

//go:embed paper.yaml
var data string

// Paper returns the reproduction of ESS.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name: "ess",
		Citation: "ESS: An Offload-Centric Latent-Cache Management Architecture for DeepSeek-V3.2-Exp, " +
			"arXiv 2512.10576.",
		Data: data,
		Study: func(s *reproduce.Study) {
			b := newBench(s)
			s.Compute(b.timed, "table-2-unseen", "table-2", "fig-7")
			s.Compute(b.identities, "table-2-identities", "headlines")
			s.Compute(b.memory, "memory")
			s.Compute(b.blocks, "small-blocks")
			s.Compute(b.locality, "fig-2", "fig-4", "fig-5", "fig-8", "fig-9")
		},
	}
}

// bench is the machine, the model and Table 2, which all sections share.
type bench struct {
	*reproduce.Study
	machine *hardware.Machine
	model   *hardware.Model
	table2  []*row
}

// newBench takes an H200. It is the only bundled GPU on which the paper's figures are possible, as
// README.md explains.
func newBench(s *reproduce.Study) *bench {
	b := &bench{Study: s, machine: s.Machine("dgx-h200"), model: s.Model("deepseek-v3.2")}
	for _, r := range s.Rows("table-2") {
		b.table2 = append(b.table2, &row{r, r.Int("mtp"), r.Int("K") << 10, r.Number("accept"), r.Int("batch"),
			r.Number("ratio"), r.Number("throughput")})
	}
	return b
}

// row is a row of Table 2.
type row struct {
	reproduce.Row
	mtp        int // positions per step
	context    int // tokens
	accept     float64
	batch      int
	ratio      float64 // Sparse Memory Ratio as printed
	throughput float64 // tokens/s of a node
}

// gpus is the number of GPUs in a node: throughput = 8·batch·OTPS in 17 of 18 rows.
const gpus = 8

const short, long = 32 << 10, 128 << 10

// seconds returns the time of a step, in which a request gets accept tokens.
func (r *row) seconds() float64 { return r.accept * gpus * float64(r.batch) / r.throughput }

func (b *bench) find(context, mtp int, accept float64, batch int) *row {
	for _, r := range b.table2 {
		if r.context == context && r.mtp == mtp && r.accept == accept && r.batch == batch {
			return r
		}
	}
	panic("no such row")
}

// gain returns the growth of throughput from one row to another, in percent.
func gain(from, to *row) float64 { return 100 * (to.throughput/from.throughput - 1) }

// headline is a growth that the paper states between two rows with the same setting.
type headline struct {
	reproduce.Row
	from, to *row
}

func (b *bench) headlines() (list []headline) {
	for _, r := range b.Rows("headlines") {
		context, mtp, accept := r.Int("K")<<10, r.Int("mtp"), r.Number("accept")
		at := func(batch string) *row { return b.find(context, mtp, accept, r.Int(batch)) }
		list = append(list, headline{r, at("from"), at("to")})
	}
	return list
}

func (b *bench) identities() {
	d := b.Section("table-2-identities")
	for _, r := range b.table2 {
		d.Set("OTPS", r.throughput/gpus/float64(r.batch), r.Row)
	}
	for _, batch := range []int{52, 64, 96, 128, 160} {
		x, y := b.find(short, 4, 2.8, batch), b.find(short, 4, 3.4, batch)
		d.Set("step", 1e3*y.seconds(), y.Row, reproduce.Row{"seconds at 2.8": 1e3 * x.seconds()})
	}
	d = b.Section("headlines")
	for _, h := range b.headlines() {
		d.Set(h.Text("line"), gain(h.from, h.to), h.Row)
	}
}

// memory holds the planner: the share of its context that each request keeps.
func (b *bench) memory() {
	d := b.Section("memory")
	index := float64(b.model.Indexer.Entry.Value)
	x := index / (index + float64(b.model.Entry.Value)) // the indexer's share of a token's bytes, always on the GPU
	first := b.find(short, 2, 1.7, 64)
	full := float64(first.batch) * (first.ratio*(1-x) + x) // CacheRatio solved for full
	d.Let("B₀", full)
	d.Set("indexer", 100*x)
	offloaded := []*row{first, b.find(short, 2, 1.7, 96), b.find(short, 2, 1.7, 128), b.find(short, 2, 1.7, 160),
		b.find(long, 2, 1.7, 40), b.find(long, 2, 1.7, 54)}
	for _, p := range offloaded {
		line := "ratio"
		if p == first {
			line = "calibration"
		}
		d.Set(line, pipeline.CacheRatio(full*short/float64(p.context), float64(p.batch), x), p.Row)
	}
	for _, p := range []*row{b.find(short, 2, 1.7, 52), b.find(long, 2, 1.7, 13)} {
		o := b.options(p.context)
		o.Steps = 1
		found := b.Plan(b.even(0, p.context), "gpu", "", plan.Options{Options: o, MaxBatch: 256})
		d.Set("largest", float64(found.Batch), p.Row)
	}
	cache := full * short * float64(b.model.Layers.Value) * float64(b.model.Entry.Value+b.model.Indexer.Entry.Value)
	weights := b.model.GPUBytes(expertGPUs)
	d.Set("share", 100*(cache+weights)/float64(b.machine.GPU.Memory.Value))
	d.Let("quarter", full/4)
	d.Let("cache", hardware.Bytes(cache))
	d.Let("weights", hardware.Bytes(weights))
}

// blocks holds the rates of 656 B pieces (section 3.1).
func (b *bench) blocks() {
	d, link := b.Section("small-blocks"), transfer.NewLink(b.machine.Link)
	d.Let("link", b.machine.Link.Name)
	for _, row := range b.Rows("rates") {
		direction, mechanism := transfer.HostToDevice, transfer.Kernel
		if row.Text("direction") == "d2h" {
			direction = transfer.DeviceToHost
		}
		if row.Text("path") == "cudaMemcpyAsync" {
			mechanism = transfer.Call
		}
		const many = 1 << 20
		request := transfer.Layout{EntryBytes: int64(b.model.Entry.Value)}.Request(many, many)
		cost := reproduce.Must(link.Path(direction, mechanism)).Cost(request)
		d.Set("rate", float64(cost.Bytes)/(cost.Seconds-cost.By.Launch)/1e9, row)
	}
}

// synthetic returns the trace of the DeepSeek presets at a context. LRU ignores candidates.
func (b *bench) synthetic(context int) *reproduce.Trace {
	steps := 0
	if b.Short {
		steps = 48
	}
	return b.DrawTrace(fmt.Sprintf("deepseek-v3.2-%dk", context>>10), fmt.Sprintf("synthetic %dK", context>>10), steps)
}

// replay replays a trace with LRU at some capacities. The demands of several positions are joined
// into one step (kvreplay replay --mtp).
func (b *bench) replay(t *reproduce.Trace, warmup string, positions int, capacities ...string) []*pipeline.Profile {
	r := reproduce.Replay{Policy: "lru", Warmup: warmup, Shape: replay.Shape{StepTokens: positions}}
	return b.Profiles(t, r, capacities...)
}

// capacitiesOf are shares of the context.
func capacitiesOf(ratios ...float64) []string {
	return slice.Map(ratios, func(r float64) string { return strconv.FormatFloat(r, 'g', -1, 64) + "ctx" })
}
