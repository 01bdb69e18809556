// Package blind compares the output of `kvreplay time` with published results that no constant of
// kvreplay was fitted to.
package blind

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

//go:embed paper.yaml
var data string

// Paper returns the collection of results, which has many authors. It has a page of its own.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "blind",
		Citation: "Published throughputs and latencies that no constant was fitted to, each with its source.",
		Data:     data, Study: study, Page: &reproduce.Page{File: "BLIND.md", Render: render},
	}
}

// Lines of a result: the values of `kvreplay time --kernels`.
const (
	roofline = "roofline"
	fitted   = "fitted"
)

// group is a kind of system with its sections.
type group struct {
	title    string
	kind     pipeline.StepKind // of its results with an interval
	sections []string
}

// groups have all sections in the order of the summary.
var groups = []group{
	{"dense engines, one GPU", pipeline.OneGPU, []string{"shadowkv-full", "lmdeploy", "gpt-fast", "tensorrt-llm", "vllm", "nemo",
		"fastertransformer", "qwen2.5", "qwen3", "tenstorrent", "llama.cpp", "rtx4090"}},
	{"dense engines, tensor parallelism", pipeline.ManyGPUs, []string{"lmdeploy-tp", "gpt-fast-tp", "tensorrt-llm-tp", "vllm-tp",
		"nemo-tp", "fastertransformer-tp", "bloom", "qwen2.5-tp", "qwen2.5-h100"}},
	{"Python that launches each kernel", pipeline.Launched, []string{"transformers"}},
	{"offloading and sparse attention", pipeline.Offloading, []string{"shadowkv", "flexgen", "zero-inference", "h2o",
		"h2o-latency", "headinfer"}},
	{"mixture of experts", pipeline.MixedExperts, []string{"qwen3-moe", "qwen3-moe-a100", "glm-5.1", "deepseek-v3.2", "large-ep"}},
	{"mixture of experts, tensor parallelism", pipeline.MixedExperts, []string{"qwen3-moe-tp", "gpt-fast-moe", "vllm-moe-tp", "vllm-dbrx",
		"sglang-deepseek-tp", "sglang-r1-tp", "tensorrt-llm-r1-tp"}},
	{"gains of one system over another", 0, []string{"shadowkv-gain", "offload-gain", "tp-gain"}},
	{"first tokens", pipeline.FirstTokens, []string{"tensorrt-llm-first", "lmdeploy-first", "lmdeploy-first-batch"}},
	{"first tokens, mixture of experts", pipeline.FirstOfExperts, []string{"deepseek-v3.2-first", "large-ep-first"}},
	{"memory", 0, []string{"rtx4090-room", "rtx4090-room-prefill"}},
}

// gains are the sections that compare ratios of other results.
var gains = map[string]bool{"shadowkv-gain": true, "offload-gain": true, "tp-gain": true}

// bench prices results.
type bench struct {
	*reproduce.Study
	known map[string]outcome  // results with an id
	of    map[string][]priced // results of a section
}

// priced is a published result with the outputs of `kvreplay time` by line.
type priced struct {
	row reproduce.Row
	by  map[string]*pipeline.Result
}

// outcome is a result that gains refer to.
type outcome struct {
	row  reproduce.Row
	ours map[string]float64 // by line, NaN if the batch does not fit
}

func study(s *reproduce.Study) {
	var all []string
	for _, g := range groups {
		all = append(all, g.sections...)
	}
	s.Compute(func() { priceAll(s).compare() }, all...)
}

// compare states the results of all sections, because an interval depends on the errors of all.
func (b *bench) compare() {
	factors := b.factors()
	for _, g := range groups {
		for _, name := range g.sections {
			if gains[name] {
				b.gains(name)
			} else {
				b.section(name, factors[g.kind].without(source(name)))
			}
		}
	}
}

func priceAll(s *reproduce.Study) *bench {
	b := &bench{s, map[string]outcome{}, map[string][]priced{}}
	for _, g := range groups {
		for _, name := range g.sections {
			if !gains[name] {
				b.price(name)
			}
		}
	}
	return b
}

func (b *bench) price(name string) {
	for _, row := range b.Rows(name) {
		p := priced{row, map[string]*pipeline.Result{}}
		for _, line := range []string{roofline, fitted} {
			p.by[line] = b.result(row, line)
		}
		b.of[name] = append(b.of[name], p)
	}
}

// section states the results of a section, with intervals by a factor of the whole step.
func (b *bench) section(name string, factor float64) {
	d := b.Section(name)
	for _, p := range b.of[name] {
		ours, m := map[string]float64{}, b.Model(p.row.Text("model"))
		for _, line := range []string{roofline, fitted} {
			r := p.by[line]
			if r.Fits() {
				ours[line] = measure(p.row, m, r)
				d.SetInterval(line, ours[line], interval(p.row, m, r, factor), p.row, reproduce.Row{"why": ""})
				continue
			}
			ours[line] = reproduce.None
			d.Absent(line, p.row, reproduce.Row{"why": "", "verdict": "the batch does not fit: " + r.Memory.Verdict})
		}
		if id := p.row.Text("id"); id != "" {
			b.known[id] = outcome{p.row, ours}
		}
	}
}

// interval returns the least and the largest of our figures at the ends of TPOT's or TTFT's interval.
// Memory has none.
func interval(row reproduce.Row, m *hardware.Model, r *pipeline.Result, factor float64) (ends [2]float64) {
	switch row.Text("measure") {
	case "room":
		return ends
	case "ttft":
		v := r.TTFTInterval.With(r.TTFT, factor)
		return [2]float64{1e3 * v.Low, 1e3 * v.High}
	case prompts:
		v, tokens := r.TTFTInterval.With(r.TTFT, factor), 8*row.Number("batch")*row.Number("prompt")
		return [2]float64{tokens / v.High, tokens / v.Low}
	case turbomind:
		first, sum := r.Interval, r.Mean
		if row.Int("prompt") > 1 {
			first, sum = r.TTFTInterval.Plus(&r.Interval, r.TTFT, r.Mean), r.TTFT+r.Mean
		}
		v := first.With(sum, factor)
		return [2]float64{1e3 * v.Low, 1e3 * v.High}
	}
	v := r.Interval.With(r.TPOT, factor)
	for i, tpot := range []float64{v.Low, v.High} {
		end := *r
		end.Mean *= tpot / r.TPOT
		end.Tokens *= r.TPOT / tpot
		ends[i] = measure(row, m, &end)
	}
	return [2]float64{min(ends[0], ends[1]), max(ends[0], ends[1])}
}

// gains compares ratios of two results: {method: id, baseline: id}. If the source prints no ratio,
// the ratio of the printed results is the reference.
func (b *bench) gains(name string) {
	d := b.Section(name)
	for _, row := range b.Rows(name) {
		method, baseline := b.outcome(row.Text("method")), b.outcome(row.Text("baseline"))
		ratio := func(method, baseline float64) float64 {
			if row.Text("measure") == latency {
				return baseline / method
			}
			return method / baseline
		}
		printed := reproduce.Row{"ratio": ratio(method.row.Number("printed"), baseline.row.Number("printed")), "why": ""}
		for _, line := range []string{roofline, fitted} {
			if v := ratio(method.ours[line], baseline.ours[line]); v > 0 {
				d.Set(line, v, row, printed)
			} else {
				d.Absent(line, row, printed, reproduce.Row{"verdict": "one of the two batches does not fit"})
			}
		}
	}
}

func (b *bench) outcome(id string) outcome {
	o, ok := b.known[id]
	if !ok {
		reproduce.Check(fmt.Errorf("blind: no result has the id %q: name one of an earlier section", id))
	}
	return o
}

// Names of measures.
const (
	latency   = "latency"
	turbomind = "turbomind"
	prompts   = "prompts"
)

// measure returns our figure in the unit of the source. The printed time to the first token stands
// for prefill. Without it, prefill counts as a step. The values of the column measure are:
//
//	""         tokens/s of all requests
//	latency    time of the batch, ms
//	step       time of a decode step, ms
//	decoding   tokens/s without prefill
//	per-token  time of the batch ÷ all generated tokens, ms
//	per-gpu    tokens/s ÷ GPUs
//	speed      prompt and generated tokens ÷ time, tokens/s
//	node       tokens/s of 8 GPUs with a batch each
//	prompts    tokens/s of the prompts of 8 GPUs with a batch each
//	ttft       time to the first token of all requests, ms
//	turbomind  the same if the last token of each prompt takes a decode step of its own, ms
//	room       tokens whose KV fits
func measure(row reproduce.Row, m *hardware.Model, r *pipeline.Result) float64 {
	if _, ok := row["generate"]; !ok {
		return r.Tokens
	}
	tokens, batch, first := row.Number("generate"), row.Number("batch"), r.Mean
	if _, ok := row["first"]; ok {
		first = row.Number("first")
	}
	seconds := first + (tokens-1)*r.Mean
	switch row.Text("measure") {
	case latency:
		return 1e3 * seconds
	case "step":
		return 1e3 * r.Mean
	case "decoding":
		return batch / r.Mean
	case "per-token":
		return 1e3 * seconds / (batch * tokens)
	case "per-gpu":
		return batch * tokens / seconds / row.Number("gpus")
	case "speed":
		return batch * (row.Number("prompt") + tokens) / seconds
	case "node":
		return 8 * batch * tokens / seconds
	case prompts:
		return 8 * batch * row.Number("prompt") / r.TTFT
	case "ttft":
		return 1e3 * r.TTFT
	case turbomind:
		if row.Int("prompt") == 1 {
			return 1e3 * r.Mean
		}
		return 1e3 * (r.TTFT + r.Mean)
	case "room":
		free := r.Memory.GPUHas - r.Memory.Weights - r.Memory.Reserve
		return math.Floor(free / float64(m.Entry.Value) / float64(m.Layers.Value))
	}
	return batch * tokens / seconds
}

// result returns the output of `kvreplay time` for a row.
func (b *bench) result(row reproduce.Row, line string) *pipeline.Result {
	m := b.Model(row.Text("model"))
	o := pipeline.Options{Model: m, Batch: row.Int("batch")}
	o.Machine = b.Machine(row.Text("machine"))
	o.TensorParallel, o.Experts = optional(row, "gpus"), optional(row, "experts")
	if _, ok := row["reserve"]; ok {
		o.Reserve = row.Number("reserve")
	}
	if line == roofline {
		o.Kernels = kernel.None
	}
	o.Path = row.Text("path")
	if engine := row.Text("engine"); engine != "" {
		o.Engine = b.Engine(engine)
	}
	o.Prefill.Overlap = optional(row, "halves") == 2
	switch o.Prefill.Chunk = int64(optional(row, "chunk")); {
	case row.Text("measure") == turbomind:
		o.Prefill.Prompt = int64(max(1, row.Int("prompt")-1))
	case row.Text("measure") == "ttft" || row.Text("measure") == prompts || o.Prefill.Chunk > 0:
		o.Prefill.Prompt = int64(row.Int("prompt"))
	}
	var p *pipeline.Profile
	schedule, selection := cmp.Or(row.Text("schedule"), "dense"), ""
	if _, ok := row["budget"]; ok {
		p, o.Scaling = selected(row, m)
		schedule, selection = "da:attend=whole", fmt.Sprintf("mean:tokens=%d", chunk)
		o.Lookup = "hash"
		o.Entry = reproduce.Must(operator.ParseEntry("v:rank=160", m))
	} else if topk := optional(row, "topk"); topk > 0 { // sparse attention, all KV on the GPU
		r := reproduce.Request{Context: int64(row.Int("prompt")), Demand: int64(topk), Resident: int64(topk)}
		p, o.Scaling = r.Profile(m)
		schedule = "gpu"
	} else {
		var err error
		prompt, generate := row.Int("prompt"), row.Int("generate")
		if kept := optional(row, "kept"); kept > 0 {
			prompt, generate = kept, 2 // one step stands for all, which read the same number of tokens
		}
		p, o.Scaling, err = pipeline.Decoding(prompt, generate, false, m)
		reproduce.Check(err)
	}
	return b.Price(p, schedule, selection, o)
}

// optional returns an integer, 0 if the row lacks the column.
func optional(row reproduce.Row, column string) int {
	if _, ok := row[column]; !ok {
		return 0
	}
	return row.Int(column)
}

// Constants of ShadowKV's runs.
const (
	chunk    = 8         // tokens
	outliers = 48        // chunks that stay on the GPU
	local    = 4 * chunk // tokens that stay on the GPU
	missed   = 0.4       // share of the budget
)

// selected returns the profile of a step that selects a row's budget in chunks.
func selected(row reproduce.Row, m *hardware.Model) (*pipeline.Profile, *pipeline.Scaling) {
	heads, chunks := int64(m.KVHeads.Value), row.Number("budget")/chunk
	demand, misses := heads*int64(chunks), heads*int64(missed*chunks)
	r := reproduce.Request{Demand: demand, Misses: misses, Resident: demand, Block: chunk}
	r.Context = int64(row.Int("prompt"))
	p, scaling := r.Profile(m)
	p.Meta.Local, p.Meta.OutlierBlocks = local, outliers
	return p, scaling
}
