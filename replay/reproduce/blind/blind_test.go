package blind

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// made is the report of all results, and the bench that priced them.
type made struct {
	*reproduce.Report
	bench *bench
}

var makeAll = sync.OnceValues(func() (m made, err error) {
	p := Paper()
	p.Study = func(s *reproduce.Study) {
		m.bench = priceAll(s)
		m.bench.compare()
	}
	m.Report, err = reproduce.Make(context.Background(), []reproduce.Paper{p}, reproduce.Inputs{})
	return m, err
})

// report returns all results, which are computed once.
func report(t *testing.T) made {
	t.Helper()
	m, err := makeAll()
	fatal.If(t, err)
	return m
}

// figures are worked by hand for steps of 10 ms.
func TestMeasure(t *testing.T) {
	m := &hardware.Model{}
	m.Entry.Value, m.Layers.Value = 4096, 32
	r := &pipeline.Result{Mean: 0.01, Tokens: 55, TTFT: 0.02}
	r.Memory.GPUHas, r.Memory.Weights, r.Memory.Reserve = 20<<20, 16<<20, 1<<20
	for want, row := range map[float64]reproduce.Row{
		800:  {"batch": 8, "generate": 100},                // 8 × 100 tokens in 100 steps
		400:  {"batch": 8, "generate": 101, "first": 1.02}, // 8 × 101 tokens in 1.02 s + 100 steps
		1000: {"batch": 8, "generate": 100, "measure": "latency"},
		24:   {"batch": 8, "generate": 100, "measure": "room"}, // 3 MiB ÷ 128 KiB
		900:  {"batch": 9, "generate": 100, "measure": "decoding"},
		1.25: {"batch": 8, "generate": 100, "measure": "per-token"},
		200:  {"batch": 8, "generate": 100, "gpus": 4, "measure": "per-gpu"},
		500:  {"batch": 1, "prompt": 400, "generate": 100, "measure": "speed"},
		6400: {"batch": 8, "generate": 100, "measure": "node"},
		10:   {"batch": 8, "generate": 2, "measure": "step"},
		55:   {"batch": 8, "budget": 1024},
		20:   {"generate": 2, "batch": 1, "prompt": 2, "measure": "ttft"},
		30:   {"generate": 2, "batch": 1, "prompt": 2, "measure": turbomind},
	} {
		if have := measure(row, m, r); math.Abs(have-want) > 1e-9 {
			t.Errorf("%v: %g, expected %g", row, have, want)
		}
	}
}

// By hand: TPOT of 10 ms lies between 8 and 12.5 ms, and TTFT of 10 ms between 7.5 and 15. 8 × 100 tokens in 100 steps are 800 tokens/s, 1000
// or 640. With a printed time to the first token, only the 100 later steps change. A factor of the whole
// step of 4 lengthens TPOT by 300 % more, in quadrature.
func TestInterval(t *testing.T) {
	effect := func(slow, fast float64) pipeline.Interval {
		return pipeline.Interval{Submodels: map[string]pipeline.Effect{"kernels": {Slow: slow, Fast: fast}}}
	}
	first := effect(0.5, 0.25)
	r := &pipeline.Result{Mean: 0.01, TPOT: 0.01, Tokens: 80, Interval: effect(0.25, 0.2), TTFT: 0.01, TTFTInterval: &first}
	if ends := interval(reproduce.Row{"batch": 8, "generate": 100}, &hardware.Model{}, r, 4); math.Abs(ends[0]-800/(1+math.Hypot(0.25, 3))) > 1e-6 {
		t.Errorf("with a factor of 4 throughput is in %v", ends)
	}
	for _, c := range []struct {
		row       reproduce.Row
		low, high float64
	}{
		{reproduce.Row{"batch": 8, "generate": 100}, 640, 1000},
		{reproduce.Row{"batch": 8, "generate": 101, "first": 1., "measure": "latency"}, 1800, 2250},
		{reproduce.Row{"batch": 8, "budget": 1024}, 64, 100},
		{reproduce.Row{"batch": 8, "generate": 100, "measure": "ttft"}, 7.5, 15},
		{reproduce.Row{"batch": 8, "prompt": 2, "generate": 2, "measure": turbomind}, 15.5, 27.5},
		{reproduce.Row{"batch": 8, "prompt": 1, "generate": 2, "measure": turbomind}, 8, 12.5},
		{reproduce.Row{"batch": 8, "generate": 100, "measure": "room"}, 0, 0},
	} {
		ends := interval(c.row, &hardware.Model{}, r, 1)
		if math.Abs(ends[0]-c.low) > 1e-9 || math.Abs(ends[1]-c.high) > 1e-9 {
			t.Errorf("%v: %v, expected %g to %g", c.row, ends, c.low, c.high)
		}
		for v, want := range map[float64]bool{c.low: c.low > 0, c.high: c.low > 0, c.low * 0.99: false, c.high*1.01 + 1: false} {
			if line := (reproduce.Line{Printed: reproduce.Number(v), Interval: ends}); v > 0 && line.Inside() != want {
				t.Errorf("%v: %g is inside: %t, expected %t", c.row, v, line.Inside(), want)
			}
		}
	}
}

// No result leaves out the exchanges of its experts, because a machine lacks a rate.
func TestExchangesArePriced(t *testing.T) {
	for name, all := range report(t).bench.of {
		for _, p := range all {
			for line, r := range p.by {
				if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, "dispatch and combine of experts are not counted") {
					t.Errorf("%s: %v, %s: %s", name, p.row, line, notes)
				}
			}
		}
	}
}

// A step of ShadowKV selects 1024 tokens of each head in 128 chunks. 51 of them miss.
func TestSelected(t *testing.T) {
	m := &hardware.Model{}
	m.KVHeads.Value, m.Layers.Value, m.HeadDim.Value, m.Entry.Value, m.Context.Value = 4, 2, 128, 2048, 1<<20
	p, _ := selected(reproduce.Row{"budget": 1024, "prompt": 61440}, m)
	have := p.Requests[0].Steps[0][0]
	want := pipeline.Counts{Demand: 512, Fetched: 204, FetchedRuns: 204, Moved: 1632, Resident: 512,
		Positions: 1, SeqLen: 61440, Prompt: 61440}
	if have != want || p.Meta.TopK != 128 || p.Meta.BlockTokens != 8 || p.Meta.Local != 32 || p.Meta.OutlierBlocks != 48 {
		t.Errorf("%+v of %+v, expected %+v", have, p.Meta, want)
	}
}

// The summary has the median, the largest, and the number beyond 40 %.
func TestErrors(t *testing.T) {
	line := func(e float64) map[string]*reproduce.Line {
		return map[string]*reproduce.Line{fitted: {Error: reproduce.Number(e)}}
	}
	list := []result{}
	for _, e := range []float64{-0.5, math.NaN(), 0.1, 0.2, -0.4} {
		list = append(list, result{lines: line(e)})
	}
	if have := of(list, fitted).cells(); !slices.Equal(have, []string{"30.0 %", "50.0 %", "1"}) {
		t.Errorf("%v, expected 30.0 %%, 50.0 %%, 1", have)
	}
}

// Prefill takes a small part of the printed time, unless the source prints the time to the first token
// or measures decoding alone.
func TestPrefill(t *testing.T) {
	s, err := reproduce.Begin(context.Background(), Paper(), reproduce.Inputs{})
	fatal.If(t, err)
	defer s.Close()
	decoding := []string{"shadowkv-full", "shadowkv", "rtx4090", "rtx4090-room", "large-ep", "headinfer", "glm-5.1", "deepseek-v3.2",
		"qwen3-moe-a100", "qwen2.5-h100", "tenstorrent", "tensorrt-llm-r1-tp"}
	for _, g := range groups {
		for _, name := range g.sections {
			if gains[name] || slices.Contains(decoding, name) {
				continue
			}
			limit := 0.05
			if g.title == "offloading and sparse attention" {
				limit = 0.08
			}
			for _, row := range s.Rows(name) {
				m, gpu := s.Model(row.Text("model")), s.Machine(row.Text("machine")).GPU
				seconds := prefill(row, m) / float64(gpu.BF16.Value) / float64(max(1, optional(row, "gpus")))
				share, apart := seconds/printedTime(row), row["first"] != nil || row.Text("measure") == "decoding"
				timed := slices.Contains([]string{"ttft", turbomind, prompts, "room"}, row.Text("measure"))
				if !apart && !timed && share > limit {
					t.Errorf("%s: %v: prefill takes %.1f %% or more of the printed time", name, row, 100*share)
				}
			}
		}
	}
}

// prefill returns the floating-point operations to compute the prompts of a batch.
func prefill(row reproduce.Row, m *hardware.Model) (flop float64) {
	tokens := row.Number("prompt")
	for i := range int(m.Layers.Value) {
		_, active := m.FFNParameters(i)
		flop += 2*tokens*m.AttentionParameters().Plus(active).Sum() +
			2*tokens*tokens*float64(m.QueryHeads.Value*m.HeadDim.Value)
	}
	return row.Number("batch") * flop
}

// printedTime returns the time of a batch that the printed result implies.
func printedTime(row reproduce.Row) float64 {
	printed, tokens := row.Number("printed"), row.Number("batch")*row.Number("generate")
	switch row.Text("measure") {
	case latency:
		return printed / 1e3
	case "per-token":
		return printed * tokens / 1e3
	case "per-gpu":
		return tokens / printed / row.Number("gpus")
	case "speed":
		return row.Number("batch") * (row.Number("prompt") + row.Number("generate")) / printed
	}
	return tokens / printed
}

// Each section belongs to one group.
func TestGroups(t *testing.T) {
	r := report(t)
	var have, want []string
	for _, g := range groups {
		have = append(have, g.sections...)
	}
	for _, s := range r.Papers[0].Sections {
		want = append(want, s.Name)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("groups have %v, expected %v", have, want)
	}
}

// A gain is the quotient of throughputs, or the inverse one of latencies. gpt-fast prints 104.9 and
// 328.43 tokens/s, FasterTransformer 5609 and 2053 ms.
func TestGains(t *testing.T) {
	r := report(t)
	have := map[string]float64{}
	for _, l := range results(sectionOf(&r.Papers[0], "tp-gain")) {
		have[l.item] = float64(l.printed)
	}
	for item, want := range map[string]float64{
		"gpt-fast, llama-2-7b, 8 GPUs over 1":                3.131,
		"FasterTransformer, gpt-20b, batch 1, 8 GPUs over 1": 2.732,
	} {
		if math.Abs(have[item]-want) > 5e-4 {
			t.Errorf("%s: %g, expected %g", item, have[item], want)
		}
	}
}

// Every section states an address, every error beyond 40 % has a reason, and none of the lines is
// fitted.
func TestSections(t *testing.T) {
	r := report(t)
	if past := r.Past(); len(past) > 0 {
		t.Errorf("without a reason: %v", past)
	}
	for _, s := range r.Papers[0].Sections {
		follows := strings.HasPrefix(s.Method, "The same ") || strings.Contains(s.Method, "of the same ") || gains[s.Name]
		if !follows && !strings.Contains(s.Method, "https://") {
			t.Errorf("section %s states no address", s.Name)
		}
		for _, l := range s.Lines {
			if l.Kind == reproduce.Fitted || float64(l.Relative) > beyond {
				t.Errorf("%s: %s is %s with a gate of %s", s.Name, l.Item, l.Kind, l.Relative)
			}
			if math.Abs(float64(l.Error)) > beyond && l.Note == "" {
				t.Errorf("%s: %s has no reason", s.Name, l.Item)
			}
		}
	}
}

// The factors of the whole step are those by which nine of ten results of a kind lie in their intervals.
func TestStepFactors(t *testing.T) {
	for kind, n := range report(t).bench.factors() {
		if have, want := kind.Factor(), n.without(""); math.Abs(have-want) > 1e-9 && len(n) > 0 {
			t.Errorf("kind %d has the factor %g, the results give %g", kind, have, want)
		}
	}
}

// By hand: nine of ten of 1.0 to 1.9 are at most 1.8. Without the publication of 1.9 eight of nine are
// too few.
func TestWithout(t *testing.T) {
	n := needs{"one": {1.9}, "other": {1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1}}
	for left, want := range map[string]float64{"": 1.8, "one": 1.8, "other": 1.9, "none": 1.8} {
		if have := n.without(left); have != want {
			t.Errorf("without %q: %g, expected %g", left, have, want)
		}
	}
	if have := (needs{"one": {3}}).without("one"); have != 1 {
		t.Errorf("without the only publication: %g, expected 1", have)
	}
}

// The least factor puts the result into the interval, and 1 % less does not.
func TestNeed(t *testing.T) {
	r := &pipeline.Result{Mean: 0.01, TPOT: 0.01, Interval: pipeline.Interval{Submodels: map[string]pipeline.Effect{}}}
	row := reproduce.Row{"batch": 8, "generate": 100, "measure": "step", "printed": 12.5}
	if have := need(row, &hardware.Model{}, r); math.Abs(have-1.25) > 0.0101 {
		t.Errorf("12.5 ms for 10 ms needs %g, expected 1.25", have)
	}
	row["printed"] = 10
	if have := need(row, &hardware.Model{}, r); have != 1 {
		t.Errorf("10 ms for 10 ms needs %g, expected 1", have)
	}
}
