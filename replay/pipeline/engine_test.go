package pipeline

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
)

// decodeStep returns the mean step of Llama 3.1 8B with an engine.
func decodeStep(t *testing.T, engine string, kernels kernel.Source) *Result {
	t.Helper()
	e, err := operator.ParseEngine(engine)
	fatal.If(t, err)
	machine, m := parts(t, "h100", "llama-3.1-8b")
	p, scaling, err := Decoding(1024, 2, false, m)
	fatal.If(t, err)
	return priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 4,
		Engine: e, Kernels: kernels})
}

// fittedKernels are the default kernels.
func fittedKernels(t *testing.T) kernel.Source {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	return kernel.Fitted(lib)
}

// A layer has 9 kernels: two norms, four products, rotary embedding, attention and activation. The
// step ends with a norm, the logits and the sampler.
func TestEngineGaps(t *testing.T) {
	fitted := fittedKernels(t)
	none := decodeStep(t, "none", fitted)
	near(t, "gaps", decodeStep(t, "graphs", fitted).Mean-none.Mean, 0.5e-6*(32*9+3))
	// The CPU launches a layer in 34 us, before the GPU has computed one.
	launched := decodeStep(t, "cpp", fitted)
	near(t, "gaps without graphs", launched.Mean-none.Mean, 0.9e-6*(32*9+3))
	if notes := strings.Join(launched.Notes, "\n"); !strings.Contains(notes, "engine cpp: 0.9 us between kernels, at least 0.0342 ms a layer") {
		t.Errorf("notes %s", notes)
	}
	for name, kind := range map[string]StepKind{"cpp": OneGPU, "pytorch": Launched} {
		near(t, "whole step of "+name, decodeStep(t, name, fitted).Interval.Submodels[StepModel.String()].Slow, kind.Factor()-1)
	}
	near(t, "step", decodeStep(t, "transformers", fitted).Mean-decodeStep(t, "graphs", fitted).Mean, 0.24*300.6/8192)
	if strings.Contains(strings.Join(none.Notes, "\n"), "engine") {
		t.Errorf("notes of no engine: %v", none.Notes)
	}
	// The roofline has no kernels, so gaps do not count and no note names them.
	if graphs, none := decodeStep(t, "graphs", nil), decodeStep(t, "none", nil); graphs.Mean != none.Mean || strings.Contains(strings.Join(graphs.Notes, "\n"), "engine") {
		t.Errorf("%g s with gaps, %g s without, notes %v", graphs.Mean, none.Mean, graphs.Notes)
	}
}

// With vLLM 0.6 the GPU waits 0.975 ms between steps, and 42.5 us more for each of four tokens. The
// roofline counts the wait too.
func TestEngineHost(t *testing.T) {
	for _, kernels := range []kernel.Source{nil, fittedKernels(t)} {
		graphs, host := decodeStep(t, "graphs", kernels), decodeStep(t, "vllm-0.6", kernels)
		near(t, "host", host.Mean-graphs.Mean, 0.975e-3+4*42.5e-6)
		if notes := strings.Join(host.Notes, "\n"); !strings.Contains(notes, "0.975 ms between steps, 42.5 us more a token") {
			t.Errorf("notes %s", notes)
		}
	}
}

// Llama-3.2-1B takes 2.5 times as long with vLLM as 2.47 GB at 78 % of 3.35 TB/s. The request has 32 +
// 128 tokens, on an H100. At 256 requests the GPU waits 5 to 6 ms.
func TestHostTimesV1(t *testing.T) {
	e, err := operator.ParseEngine("vllm-0.8")
	fatal.If(t, err)
	machine, m := parts(t, "h100", "llama-3.2-1b")
	p, scaling, err := Decoding(32, 128, false, m)
	fatal.If(t, err)
	r := priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 1,
		Engine: e, Kernels: fittedKernels(t)})
	if want := 2.5 * 2.47e9 / (0.78 * 3.35e12); math.Abs(r.TPOT/want-1) > 0.1 {
		t.Errorf("a step takes %g s, expected %g", r.TPOT, want)
	}
	if wait := e.Step + 256*e.Token; wait < 5e-3 || wait > 6e-3 {
		t.Errorf("the GPU waits %g s for 256 requests", wait)
	}
}

// A layer next to a part of a prompt takes at least the time to launch its kernels, and others do not. The
// kernels are those of TestLaunches in package operator.
func TestEagerLaunches(t *testing.T) {
	for model, launches := range map[string]float64{"llama-3.1-8b": 32 * 9, "qwen3-30b-a3b": 48 * 16, "deepseek-v3": 3*14 + 58*23} {
		machine, m := parts(t, "b200", model)
		e := engineOf(t, "trtllm-pytorch")
		it, err := NewIterations(t.Context(), Options{Machine: machine, Model: m, Batch: 4, Engine: e, Kernels: fittedKernels(t), Prefill: Prefill{Chunk: 8}}, false)
		fatal.If(t, err)
		decoding := Iteration{Decodes: 1, Context: 64, Selected: 64, Outputs: 1}
		next := decoding
		next.Chunks = []operator.Chunk{{Tokens: 8}}
		with, err := it.Seconds(&next)
		fatal.If(t, err)
		without, err := it.Seconds(&decoding)
		fatal.If(t, err)
		output, err := it.r.operators.Output(1)
		fatal.If(t, err)
		near(t, "step of "+model+" next to a prompt", with, launches*e.Eager+output)
		if without > with {
			t.Errorf("%s: %g s without a prompt, %g with one", model, without, with)
		}
	}
}

// The CUDA graph of 300 requests has 384 tokens, so 301 take as long. Only attention tells them apart, which has as
// many cached tokens here. GPUs with requests of their own have the graph of the largest batch, and none next to a
// prompt of one.
func TestGraphPadding(t *testing.T) {
	machine, m := parts(t, "b200", "llama-3.1-8b")
	graphs := *engineOf(t, "trtllm-pytorch")
	exact := graphs
	graphs.Host, graphs.HostRequest, exact.Host, exact.HostRequest, exact.Graphs = 0, 0, 0, 0, nil
	seconds := func(e *operator.Engine, most int, x Iteration) float64 {
		t.Helper()
		it, err := NewIterations(t.Context(), Options{Machine: machine, Model: m, Batch: most, Engine: e, Prefill: Prefill{Chunk: 8}}, false)
		fatal.If(t, err)
		s, err := it.Seconds(&x)
		fatal.If(t, err)
		return s
	}
	batch := func(n int64) Iteration { return Iteration{Decodes: n, Context: 1 << 16, Selected: 1 << 16, Outputs: n} }
	want := seconds(&exact, 1024, batch(384))
	near(t, "300 requests", seconds(&graphs, 1024, batch(300)), want)
	near(t, "384 requests", seconds(&graphs, 1024, batch(384)), want)
	near(t, "300 of at most 320 requests", seconds(&graphs, 320, batch(300)), seconds(&exact, 320, batch(320)))
	x := batch(1)
	x.Group = &GroupWork{Tokens: 150, Decodes: 300}
	near(t, "one request next to a GPU with 300", seconds(&graphs, 1024, x), want)
	x.Group.Prompts = true
	logits, err := operator.NewRoofline(operator.Config{Machine: machine, Model: m}).Output(1)
	fatal.If(t, err)
	near(t, "one request next to a prompt of another GPU", seconds(&graphs, 1024, x), 32*9*graphs.Eager+logits)
}

// The CPU takes 1.23 ms for each of 32 layers, which is longer than a layer's computation. The
// logits come after them.
func TestEngineLayers(t *testing.T) {
	none, slow := decodeStep(t, "none", nil), decodeStep(t, "pytorch", nil)
	machine, m := parts(t, "h100", "llama-3.1-8b")
	logits, err := operator.NewRoofline(operator.Config{Machine: machine, Model: m}).Output(4)
	fatal.If(t, err)
	near(t, "step", slow.Mean, 1/25.5+logits)
	if none.Mean >= slow.Mean || !strings.Contains(strings.Join(slow.Notes, "\n"), "engine pytorch: at least 1.23 ms a layer") {
		t.Errorf("%g s, %v", none.Mean, slow.Notes)
	}
}

// By hand: 64 ÷ 13806 s for 64 requests and 45.11 ms for 1536 are 27.5 us for each request and 2.88 ms
// besides. The layers of a small model take so long, and those of a large one longer.
func TestEngineNextToGPU(t *testing.T) {
	e, err := operator.ParseEngine("trtllm-pytorch")
	fatal.If(t, err)
	near(t, "64 requests", e.Host+64*e.HostRequest, 64./13806)
	near(t, "1536 requests", e.Host+1536*e.HostRequest, 45.11e-3)
	for model, limited := range map[string]bool{"qwen2.5-0.5b": true, "llama-3.1-8b": false} {
		machine, m := parts(t, "h100", model)
		p, scaling, err := Decoding(1024, 2, false, m)
		fatal.If(t, err)
		o := Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 4}
		want := priced(t, p, o).Mean
		if limited {
			logits, err := operator.NewRoofline(operator.Config{Machine: machine, Model: m}).Output(4)
			fatal.If(t, err)
			want = e.Host + 4*e.HostRequest + logits
		}
		o.Engine = e
		got := priced(t, p, o)
		near(t, "step of "+model, got.Mean, want)
		if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "engine trtllm-pytorch: the layers take at least 2.88 ms a step and 27.5 us a request") {
			t.Errorf("notes %s", notes)
		}
	}
}
