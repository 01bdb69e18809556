package ellm

import (
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// experiment is a setting of section 6: a model, lengths and a limit of the time per token.
type experiment struct {
	name, model     string
	gpus            int
	slo             int64 // ms
	requests        int
	input, output   float64 // mean tokens
	equal           bool    // all requests have the mean lengths
	interval, after float64 // mean time between arrivals and its standard deviation, s
}

// experiments are those of Table 1, except for Llama2-70B with L-Eval. The load is section 6.1's:
// 50 and 12.5 requests per second, with the variation of the printed intervals. The paper has 3,000
// requests. Those of L-Eval take hours.
var experiments = []experiment{
	{name: "Llama2-13B, ShareGPT", model: "llama-2-13b", gpus: 1, slo: 50, requests: 3000, input: prompt, output: answer, interval: 0.02, after: 0.02 * 37.49 / 22.15},
	{name: "Llama2-70B, ShareGPT", model: "llama-2-70b", gpus: 4, slo: 500, requests: 3000, input: prompt, output: answer, interval: 0.02, after: 0.02 * 37.49 / 22.15},
	{name: "Llama2-13B, L-Eval", model: "llama-2-13b", gpus: 1, slo: 60, requests: 4, input: 35956, output: 5189, equal: true, interval: 0.08, after: 0.08 * 37.49 / 22.15},
}

// longest is the context of Llama 2, in tokens.
const longest = 4096

// draw returns the requests of an experiment. Intervals follow a gamma distribution, prompts an
// exponential one, and answers a gamma distribution of shape 2.
func (x experiment) draw() (all []serving.Request) {
	r := rand.New(rand.NewPCG(29, 0))
	shape := x.interval * x.interval / x.after / x.after
	gaps := distuv.Gamma{Alpha: shape, Beta: shape / x.interval, Src: r}
	prompts := distuv.Exponential{Rate: 1 / x.input, Src: r}
	answers := distuv.Gamma{Alpha: 2, Beta: 2 / x.output, Src: r}
	at := 0.
	for range x.requests {
		q := serving.Request{Arrival: int64(at * 1e9), Input: int(x.input), Output: int(x.output)}
		if !x.equal {
			q.Input = 1 + int(math.Min(prompts.Rand(), longest/2))
			q.Output = 1 + int(math.Min(answers.Rand(), float64(longest-q.Input-1)))
		}
		all = append(all, q)
		at += gaps.Rand()
	}
	return all
}

// system is one of the four compared systems.
type system struct {
	name    string
	preempt pipeline.Resumption
	partial bool
}

var compared = []system{
	{"eLLM", pipeline.BySwap, true},
	{"vLLM-Recompute", pipeline.ByRecompute, false},
	{"vLLM-Swap", pipeline.BySwap, false},
	{"HCache", pipeline.ByHidden, false},
}

// hostMemory is the memory for swapped KV of each GPU, in bytes (section 6.1).
const hostMemory = 40e9

// serve runs a system. With literal, Eq. 1 uses Eqs. 2 to 4 as printed.
func (b *bench) serve(x experiment, s system, literal bool) *serving.Summary {
	machine := *b.machine
	if x.gpus > 1 { // without NVLink, GPUs exchange over PCIe (section 6.1)
		card := *machine.GPU
		card.PeerBandwidth = hardware.Fact[hardware.BytesPerSecond]{}
		machine.GPU = &card
	}
	e := serving.Engine{
		Options: pipeline.Options{Machine: &machine, Model: b.Model(x.model), Kernels: b.Kernels, Engine: reproduce.Must(operator.ParseEngine("graphs")),
			Reserve: 0.1, TensorParallel: x.gpus, Network: pipeline.Networks(b.Library)},
		Preempt: s.preempt, BlockTokens: 16, Budget: 2048, MaxRunning: waiting, Uncached: s.partial, Fused: s.partial, Elastic: s.partial,
	}
	served := reproduce.Must(serving.NewServed(b.Context, e, serving.Admission{Batch: true, Literal: literal, TPOT: x.slo * 1e6}))
	served.Ahead, served.NoPrefix, served.Memory.Host = false, true, hostMemory
	served.Limits = serving.Limits{"": {TPOT: x.slo * 1e6}}
	if b.Short {
		x.requests = min(x.requests, 60)
	}
	from := func(float64) (serving.Source, func(), error) { return serving.FromSlice(x.draw()), func() {}, nil }
	return reproduce.Must(served.Summarise(b.Context, from, 1))
}

// models are the two models that Eq. 1 uses.
var models = []string{"Eqs. 2 to 4", "operator model"}

// underLoad holds the figures of sections 6.2 and 6.4 next to those of the simulation.
func (b *bench) underLoad(d *reproduce.Draft) {
	type key struct{ experiment, system, by string }
	found := map[key]*serving.Summary{}
	var group errgroup.Group
	for _, x := range experiments {
		for _, s := range compared {
			for i, by := range models {
				k := key{x.name, s.name, by}
				found[k] = new(serving.Summary)
				to := found[k]
				group.Go(func() error { return reproduce.Try(func() { *to = *b.serve(x, s, i == 0) }) })
			}
		}
	}
	reproduce.Check(group.Wait())
	var slower []float64 // printed times per token of Llama2-70B, divided by ours
	for _, list := range []struct {
		table  string
		figure func(own, ellm *serving.Summary) float64
	}{
		{"throughput", func(own, ellm *serving.Summary) float64 { return ellm.Throughput / own.Throughput }},
		{"first token", func(own, ellm *serving.Summary) float64 { return float64(own.TTFT.Mean) / float64(ellm.TTFT.Mean) }},
		{"attainment", func(own, _ *serving.Summary) float64 { return 100 * float64(own.Attainment) }},
		{"time per token", func(own, _ *serving.Summary) float64 { return float64(own.TPOT.Mean) / 1e6 }},
		{"running", func(own, _ *serving.Summary) float64 { return own.Running }},
		{"most running", func(own, _ *serving.Summary) float64 { return float64(own.MostRunning) }},
		{"cached", func(own, _ *serving.Summary) float64 { return 1 - own.Uncached }},
	} {
		for _, row := range b.Rows(list.table) {
			for _, by := range models {
				own, ellm := found[key{row.Text("of"), row.Text("system"), by}], found[key{row.Text("of"), "eLLM", by}]
				ours := list.figure(own, ellm)
				d.Set(list.table, ours, row, reproduce.Row{"by": by})
				if list.table == "time per token" && row.Text("of") == "Llama2-70B, ShareGPT" && by == "operator model" {
					slower = append(slower, row.Number("printed")/ours)
				}
			}
		}
	}
	d.Let("slower from", slices.Min(slower))
	d.Let("slower to", slices.Max(slower))
	for _, x := range experiments {
		at := func(system string) float64 { return found[key{x.name, system, models[0]}].Throughput }
		best := max(at("vLLM-Recompute"), at("vLLM-Swap"), at("HCache"))
		d.Set("order", at("eLLM")/best, reproduce.Row{"of": x.name})
	}
}
