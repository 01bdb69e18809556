// Package trtllm compares `kvreplay serve` with throughputs and latencies that TensorRT-LLM publishes. No
// constant of kvreplay was fitted to them.
package trtllm

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/replay/hardware"
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
		Citation: "NVIDIA, TensorRT-LLM performance overviews, versions 0.14 to 1.1.",
		Data:     data, Study: study, Page: &reproduce.Page{File: "TRTLLM.md", Render: render},
	}
}

func study(s *reproduce.Study) {
	b := &bench{s, map[string]*serving.Summary{}}
	for _, r := range releases {
		s.Compute(func() { b.throughput(r) }, r.section())
	}
	s.Compute(b.online, "online")
}

// bench serves requests.
type bench struct {
	*reproduce.Study
	known map[string]*serving.Summary // of throughputs, by settings
}

// A release is a version of TensorRT-LLM whose throughputs are published. Its file has a row for each model,
// machine and number of GPUs, and a column for each pair of lengths.
type release struct {
	version string
	engine  string
}

// pyTorch is the engine of versions that do not divide prompts. An iteration then has room for a whole prompt and
// a token of each request that decodes.
const pyTorch = "trtllm-pytorch"

var releases = []release{{"0.17", "trtllm"}, {"0.20", pyTorch}, {"1.0", pyTorch}, {"1.1", pyTorch}}

//go:embed data/*.csv
var tables embed.FS

// length is the tokens of each request of a run, and the published number of requests. The numbers of 1024 + 2048
// and of 1000 + 1000 in version 1.1 are not published. They are those of the next lengths.
type length struct{ prompt, output, requests int }

func (l length) String() string { return fmt.Sprintf("%d + %d", l.prompt, l.output) }

var lengths = []length{{128, 128, 30000}, {128, 2048, 3000}, {128, 4096, 1500}, {500, 2000, 3000}, {1000, 1000, 3000},
	{1000, 2000, 1500}, {1024, 1024, 3000}, {1024, 2048, 1500}, {1024, 8192, 1500}, {1024, 32768, 1000}, {2048, 128, 3000},
	{2048, 2048, 1500}, {5000, 500, 1500}, {8192, 1024, 1500}, {20000, 2000, 1000}, {32768, 1024, 1000}}

// run is a run of an engine.
type run struct {
	row    reproduce.Row
	engine serving.Engine
	share  float64 // of the memory that is left, for KV
	all    []serving.Request
	found  *serving.Summary
}

// throughput sets the figures of requests that arrive at once.
func (b *bench) throughput(of release) {
	var runs []*run
	for _, row := range reproduce.Must(of.rows("")) {
		for _, l := range lengths {
			printed, err := strconv.ParseFloat(row.Text(l.String()), 64)
			if err != nil {
				continue
			}
			weights, parallel, gpus := row.Text("weights"), row.Text("parallel"), row.Int("gpus")
			r := &run{row: reproduce.Row{"model": row["model"], "gpus": gpus, "machine": row["machine"], "lengths": l.String(),
				"printed": printed, "parallel": parallel, "weights": weights}, share: 0.95, engine: b.engine(row, of.engine, weights, parallel)}
			r.engine.MaxRunning, r.engine.Budget = tuned(&r.engine, gpus, l.prompt, l.output)
			if of.engine == pyTorch {
				r.engine.Budget = max(r.engine.Budget, l.prompt+r.engine.MaxRunning)
			}
			r.row["requests"], r.row["tokens"] = r.engine.MaxRunning, r.engine.Budget
			r.all = slices.Repeat([]serving.Request{{Input: l.prompt, Output: l.output}}, l.requests)
			runs = append(runs, r)
		}
	}
	b.serve(runs)
	d := b.Section(of.section())
	for _, r := range runs {
		d.Set("throughput", r.found.Throughput, r.row)
	}
}

func (r release) section() string { return "throughput-" + r.version }

// rows reads a file of a release: that of the printed throughputs, or that with a prefix.
func (r release) rows(prefix string) (rows []reproduce.Row, err error) {
	text, err := tables.ReadFile("data/" + prefix + r.version + ".csv")
	if err != nil {
		return nil, err
	}
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, cells := range all[1:] {
		row := reproduce.Row{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		if row["gpus"], err = strconv.Atoi(row.Text("gpus")); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// online sets the figures of requests that arrive at a rate.
func (b *bench) online() {
	var runs []*run
	for _, row := range b.Rows("online") {
		r := &run{row: row, engine: b.engine(row, "trtllm", "bf16", "tensor"), share: 0.9}
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

// engine returns the engine of a row. KV takes a byte, and two with weights of bf16.
func (b *bench) engine(row reproduce.Row, engine, weights, parallel string) serving.Engine {
	model := *b.Model(row.Text("model"))
	switch weights {
	case "fp8":
		model.BytesPerParameter.Value = 1
	case "nvfp4":
		model.NVFP4, model.BytesPerParameter.Value, model.ScaleBlock.Value = true, hardware.NVFP4Bytes, 0
	}
	if weights != "bf16" {
		model.Entry.Value /= 2
	}
	e := serving.Engine{Preempt: pipeline.Never, BlockTokens: 64}
	e.Machine, e.Model, e.Kernels, e.Engine = b.Machine(row.Text("machine")), &model, b.Kernels, b.Study.Engine(engine)
	e.Network = pipeline.Networks(b.Library)
	switch gpus := row.Int("gpus"); {
	case parallel == "data":
		e.Experts, e.Replicas = gpus, gpus
	default:
		e.TensorParallel = gpus
		if model.MoE != nil && gpus == 1 {
			e.Experts = 1
		}
	}
	return e
}

// tuned returns the largest numbers of requests and tokens in an iteration that trtllm-bench chooses for
// requests of some length (calc_engine_setting and finetune_setting of tensorrt_llm/bench/build/tuning.py). It
// does not know latent attention. If each GPU has requests of its own, both are numbers of each.
func tuned(e *serving.Engine, gpus, prompt, output int) (requests, tokens int) {
	m, n, weight := e.Model, float64(gpus), float64(e.Model.BytesPerParameter.Value)
	stored := float64(m.Parameters.Value)
	if m.NVFP4 { // a stored number has two weights, or is one scale
		stored, weight = stored*hardware.NVFP4Bytes, 0.5
	}
	free := float64(e.Machine.GPU.Memory.Value)*n - stored*weight
	entry := float64(m.Entry.Value)
	if m.Latent != nil {
		entry = 2 * float64(m.Hidden.Value) * float64(m.KVHeads.Value/m.QueryHeads.Value)
	}
	copies := max(1, n/float64(m.KVHeads.Value)) // a GPU has at least one KV head
	fit := min(0.95*free/(entry*float64(m.Layers.Value)*copies)/float64(prompt+output), 4096)
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

// serve runs all, several at once. Versions with the same engine share their runs. With Inputs.Short, runs have
// few requests.
func (b *bench) serve(runs []*run) {
	var group errgroup.Group
	group.SetLimit(4)
	for _, r := range runs {
		key := fmt.Sprint(r.row["model"], r.row["machine"], r.row["gpus"], r.row["parallel"], r.row["weights"], r.row["lengths"], r.engine.Engine.Name)
		if r.row["lengths"] != nil && b.known[key] != nil {
			r.found = b.known[key]
			continue
		}
		r.found = &serving.Summary{}
		b.known[key] = r.found
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
				*r.found = *reproduce.Must(served.Summarise(b.Context, from, 1))
			})
		})
	}
	reproduce.Check(group.Wait())
}
