// Package trtllm compares `kvreplay serve` with throughputs and latencies that TensorRT-LLM publishes. No
// constant of kvreplay was fitted to them.
package trtllm

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/serving"
)

//go:embed paper.yaml
var data string

// Paper returns the results, which have a page of their own.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "trtllm",
		Citation: "NVIDIA, TensorRT-LLM performance overview, version 0.17.",
		Data:     data, Study: study, Page: &reproduce.Page{File: "TRTLLM.md", Render: render},
	}
}

func study(s *reproduce.Study) {
	b := &bench{s}
	s.Compute(b.throughput, "throughput")
	s.Compute(b.online, "online")
}

// bench serves requests.
type bench struct{ *reproduce.Study }

// length is the tokens of each request of a run, and the published number of requests.
type length struct{ prompt, output, requests int }

func (l length) String() string { return fmt.Sprintf("%d + %d", l.prompt, l.output) }

var lengths = []length{{128, 128, 30000}, {128, 2048, 3000}, {128, 4096, 1500}, {500, 2000, 3000}, {1000, 1000, 3000},
	{2048, 128, 3000}, {2048, 2048, 1500}, {5000, 500, 1500}, {20000, 2000, 1000}}

// run is a run of an engine.
type run struct {
	row    reproduce.Row
	engine serving.Engine
	share  float64 // of the memory that is left, for KV
	all    []serving.Request
	found  *serving.Summary
}

// throughput sets the figures of requests that arrive at once.
func (b *bench) throughput() {
	var runs []*run
	for _, row := range b.Rows("throughput") {
		for _, l := range lengths {
			name := l.String()
			if row[name] == nil {
				continue
			}
			r := &run{row: reproduce.Row{"model": row["model"], "gpus": row["gpus"], "machine": row["machine"], "lengths": name,
				"printed": row.Number(name)}, share: 0.95, engine: b.engine(row, row.Text("machine") != "a100-80")}
			r.engine.MaxRunning, r.engine.Budget = tuned(&r.engine, l.prompt, l.output)
			r.row["requests"], r.row["tokens"] = r.engine.MaxRunning, r.engine.Budget
			r.all = slices.Repeat([]serving.Request{{Input: l.prompt, Output: l.output}}, l.requests)
			runs = append(runs, r)
		}
	}
	b.serve(runs)
	d := b.Section("throughput")
	for _, r := range runs {
		d.Set("throughput", r.found.Throughput, r.row)
	}
}

// online sets the figures of requests that arrive at a rate.
func (b *bench) online() {
	var runs []*run
	for _, row := range b.Rows("online") {
		r := &run{row: row, engine: b.engine(row, false), share: 0.9}
		r.engine.MaxRunning, r.engine.Budget = 2048, 8192
		at, rng := 0., rand.New(rand.NewPCG(14, 0))
		for range 500 {
			r.all = append(r.all, serving.Request{Arrival: int64(at * 1e9), Input: row.Int("prompt"), Output: row.Int("generate")})
			if rate := row.Number("rate"); rate > 0 {
				at += rng.ExpFloat64() / rate
			}
		}
		runs = append(runs, r)
	}
	b.serve(runs)
	d := b.Section("online")
	for _, r := range runs {
		at := "all at once"
		if rate := r.row.Int("rate"); rate > 0 {
			at = fmt.Sprintf("%d requests/s", rate)
		}
		values := reproduce.Row{"at": at, "why": "near the load that the GPUs can serve, a small difference of the load is a large one of the latency"}
		d.Set("ttft", float64(r.found.TTFT.Mean)/1e6, r.row, values)
		d.Set("itl", float64(r.found.TPOT.Mean)/1e6, r.row, values)
	}
}

// engine returns the engine of a row. With fp8, weights and KV take a byte instead of two.
func (b *bench) engine(row reproduce.Row, fp8 bool) serving.Engine {
	model := *b.Model(row.Text("model"))
	if fp8 {
		model.BytesPerParameter.Value, model.Entry.Value = 1, model.Entry.Value/2
	}
	e := serving.Engine{Preempt: pipeline.Never, BlockTokens: 64}
	e.Machine, e.Model, e.Kernels, e.Engine = b.Machine(row.Text("machine")), &model, b.Kernels, b.Study.Engine("trtllm")
	e.TensorParallel, e.Network = row.Int("gpus"), pipeline.Networks(b.Library)
	if model.MoE != nil && e.TensorParallel == 1 {
		e.Experts = 1
	}
	return e
}

// tuned returns the largest numbers of requests and tokens in an iteration that trtllm-bench chooses for
// requests of some length (calc_engine_setting and finetune_setting of tensorrt_llm/bench/build/tuning.py).
func tuned(e *serving.Engine, prompt, output int) (requests, tokens int) {
	m, gpus := e.Model, float64(max(1, e.TensorParallel))
	free := float64(e.Machine.GPU.Memory.Value)*gpus - float64(m.Parameters.Value)*float64(m.BytesPerParameter.Value)
	copies := max(1, gpus/float64(m.KVHeads.Value)) // a GPU has at least one KV head
	entry := float64(m.Entry.Value) * float64(m.Layers.Value) * copies
	fit := min(0.95*free/entry/float64(prompt+output), 4096)
	up := func(v, step float64) int { return int(step * math.Ceil(v/step)) }
	switch {
	case fit < 256:
		requests = max(64, up(fit, 32))
	case fit < 1024:
		requests = up(fit, 128)
	default:
		requests = up(fit, 256)
	}
	switch all := min(fit*(1+float64(prompt)/float64(output)), 32768); {
	case all < 4096:
		tokens = max(2048, up(all, 256))
	case all < 8192:
		tokens = up(all, 512)
	default:
		tokens = up(all, 1024)
	}
	return requests, tokens
}

// serve runs all, several at once. With Inputs.Short, runs have few requests.
func (b *bench) serve(runs []*run) {
	var group errgroup.Group
	group.SetLimit(4)
	for _, r := range runs {
		group.Go(func() error {
			return reproduce.Try(func() {
				served := reproduce.Must(serving.NewServed(b.Context, r.engine, serving.Admission{}))
				served.NoPrefix = true
				total := int64(r.engine.Machine.GPU.Memory.Value)
				kv := total - served.Occupied(total) - served.Memory.Weights
				served.Memory.Total -= int64((1 - r.share) * float64(kv))
				all := r.all
				if b.Short {
					all = all[:min(20, len(all))]
				}
				from := func(float64) (serving.Source, func(), error) { return serving.FromSlice(all), func() {}, nil }
				r.found = reproduce.Must(served.Summarise(b.Context, from, 1))
			})
		})
	}
	reproduce.Check(group.Wait())
}
