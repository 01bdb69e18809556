// Package blind compares the output of `kvreplay time` with published results that no constant of
// kvreplay was fitted to.
package blind

import (
	_ "embed"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

//go:embed paper.yaml
var data string

// Paper returns the collection of results, which has many authors. It has a page of its own.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name:     "blind",
		Citation: "Published throughputs and latencies that no constant was fitted to, each with its source.",
		Data:     data, Parts: 1, Study: study, Page: &reproduce.Page{File: "BLIND.md", Render: render},
	}
}

// Lines of a result: the values of `kvreplay time --kernels`.
const (
	roofline = "roofline"
	fitted   = "fitted"
)

// bench prices results.
type bench struct{ *reproduce.Study }

func study(s *reproduce.Study) {
	defer s.Done()
	b := &bench{s}
	full, sparse := b.section("shadowkv-full"), b.section("shadowkv")
	b.gain(full, sparse)
	for _, name := range []string{"lmdeploy", "gpt-fast", "tensorrt-llm", "vllm", "rtx4090", "rtx4090-room"} {
		b.section(name)
	}
}

// section prices the results of a section. It returns our figures by row and line, NaN if a batch
// does not fit.
func (b *bench) section(name string) (ours []map[string]float64) {
	d := b.Section(name)
	for _, row := range b.Rows(name) {
		figures := map[string]float64{}
		for _, line := range []string{roofline, fitted} {
			r := b.price(row, line)
			figures[line] = measure(row, b.Model(row.Text("model")), r)
			if r.Fits() {
				d.Set(line, figures[line], row)
				continue
			}
			figures[line] = reproduce.None
			d.Absent(line, row, reproduce.Row{"verdict": "the batch does not fit: " + r.Memory.Verdict})
		}
		ours = append(ours, figures)
	}
	return ours
}

// gain compares the ratios of two tables with equal rows.
func (b *bench) gain(baseline, method []map[string]float64) {
	d := b.Section("shadowkv-gain")
	for i, row := range b.Rows("shadowkv-gain") {
		for _, line := range []string{roofline, fitted} {
			if ratio := method[i][line] / baseline[i][line]; ratio > 0 {
				d.Set(line, ratio, row)
			} else {
				d.Absent(line, row, reproduce.Row{"verdict": "one of the two batches does not fit"})
			}
		}
	}
}

// measure returns our figure in the unit of the source: tokens/s of all requests, the latency of a
// batch in ms, or the tokens whose KV fits. The printed time to the first token stands for prefill.
// Without it, prefill counts as a step.
func measure(row reproduce.Row, m *hardware.Model, r *pipeline.Result) float64 {
	if _, ok := row["generate"]; !ok {
		return r.Tokens
	}
	tokens, first := row.Number("generate"), r.Mean
	if _, ok := row["first"]; ok {
		first = row.Number("first")
	}
	seconds := first + (tokens-1)*r.Mean
	switch row.Text("measure") {
	case "latency":
		return 1e3 * seconds
	case "room":
		free := r.Memory.GPUHas - r.Memory.Weights - r.Memory.Reserve
		return math.Floor(free / float64(m.Entry.Value) / float64(m.Layers.Value))
	}
	return row.Number("batch") * tokens / seconds
}

// price returns the output of `kvreplay time` for a row.
func (b *bench) price(row reproduce.Row, line string) *pipeline.Result {
	m := b.Model(row.Text("model"))
	o := pipeline.Options{Model: m, Batch: row.Int("batch"), Threads: 16, Depth: 64}
	o.Machine = b.Machine(row.Text("machine"))
	if _, ok := row["reserve"]; ok {
		o.Reserve = row.Number("reserve")
	}
	if line == roofline {
		o.Kernels = kernel.None
	}
	var p *pipeline.Profile
	schedule, selection := "dense", ""
	if _, ok := row["budget"]; ok {
		p, o.Scaling = selected(row, m)
		schedule, selection = "layerwise", fmt.Sprintf("mean:tokens=%d", chunk)
		o.Entry = reproduce.Must(pipeline.ParseEntry("v:rank=160", m))
	} else {
		var err error
		p, o.Scaling, err = pipeline.Decoding(row.Int("prompt"), row.Int("generate"), false, m)
		reproduce.Check(err)
	}
	return b.Price(p, schedule, selection, o)
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
