package pipeline

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// prefilled returns a batch of Llama 3.1 8B on an H100 with prompts of 4096 tokens.
func prefilled(t *testing.T, batch int, chunk int64, change func(*Options)) *Result {
	t.Helper()
	machine, m := parts(t, "h100", "llama-3.1-8b")
	p, scaling, err := Decoding(4096, 2, false, m)
	fatal.If(t, err)
	o := Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: batch, Steps: 1,
		Prefill: Prefill{Prompt: 4096, Chunk: chunk}}
	if change != nil {
		change(&o)
	}
	return priced(t, p, o)
}

// Arithmetic limits a prompt of 4096 tokens on the roofline: the weights of 32 layers, and 4096 ×
// 4097 / 2 pairs of 32 heads with keys and values of 128. The logits are those of one token.
func TestFirstTokens(t *testing.T) {
	const tokens, layers, rows = 4096, 32, 4096.
	machine, m := parts(t, "h100", "llama-3.1-8b")
	r := operator.NewRoofline(operator.Config{Machine: machine, Model: m})
	rate := float64(machine.GPU.AchievedBF16.Value)
	weights := rows*(4096+2*1024) + rows*4096 + 3*rows*14336
	pairs := tokens * (tokens + 1) / 2.
	logits, err := r.Output(1)
	fatal.If(t, err)
	want := layers*(2*tokens*weights+4*pairs*32*128)/rate + logits
	near(t, "one prompt", prefilled(t, 1, 0, nil).TTFT, want)
	// Chunks of 1024 tokens have the same arithmetic.
	near(t, "in chunks", prefilled(t, 1, 1024, nil).TTFT, want)
	// Two prompts a pass make three passes of five prompts.
	rest := want - logits
	near(t, "two a pass", prefilled(t, 5, 8192, nil).TTFT, 5*rest+3*logits)
	near(t, "all at once", prefilled(t, 4, 0, nil).TTFT, 4*rest+logits)
	if alone := prefilled(t, 1, 0, func(o *Options) { o.Prefill = Prefill{} }).TTFT; alone != 0 {
		t.Errorf("without a prompt the first token takes %g s", alone)
	}
}

// A note states both factors of the whole step. Without prompts there is one.
func TestNoteOfErrors(t *testing.T) {
	last := func(r *Result) string { return r.Notes[len(r.Notes)-1] }
	with, without := last(prefilled(t, 1, 0, nil)), last(prefilled(t, 1, 0, func(o *Options) { o.Prefill = Prefill{} }))
	want := fmt.Sprintf(", whole step %.0f %%", 100*(OneGPU.Factor()-1))
	if !strings.HasSuffix(without, want) {
		t.Errorf("%q, expected to end in %q", without, want)
	}
	if want += fmt.Sprintf(" (%.0f %% for TTFT)", 100*(FirstTokens.Factor()-1)); !strings.HasSuffix(with, want) {
		t.Errorf("%q, expected to end in %q", with, want)
	}
}

// Kernels of small chunks reach less of the rates than those of large ones.
func TestFirstTokensByKernels(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	fitted := func(o *Options) { o.Kernels = kernel.Fitted(lib) }
	whole, small := prefilled(t, 2, 0, fitted).TTFT, prefilled(t, 2, 64, fitted).TTFT
	if roofline := prefilled(t, 2, 0, nil).TTFT; whole < roofline || whole > 2*roofline || small < 1.5*whole {
		t.Errorf("%g s at once, %g s in chunks of 64, roofline %g s", whole, small, roofline)
	}
}

// By hand: two equal passes of three layers. A layer computes for 2 s, communicates for 1 s, and moves
// for 4 s meanwhile. Embedding and gather take 1 s each, logits 5 s.
func TestPromptsStretched(t *testing.T) {
	pass := passPrice{times: 2, embed: 1, kernels: 5, gather: 1, layers: []layersPrice{{number: 3, kernels: 2, network: 1, least: 2.5, transfers: 4}}}
	p := &prompts{passes: []passPrice{pass}, stages: 1}
	for _, c := range []struct {
		model  Submodel
		factor float64
		want   float64
	}{
		{KernelModel, 1, 38}, // 2 × (1 + 3×4 + 5 + 1)
		{KernelModel, 2, 54}, // layers of 2×2 + 1 s
		{KernelModel, 0.5, 33}, {LinkModel, 2, 62},
		{LinkModel, 0.5, 32}, // of transfers of 2 s, all hide
		{NetworkModel, 2, 42}, {DriveModel, 2, 38},
	} {
		by := asModelled
		by[c.model] = c.factor
		if got := p.seconds(&by); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s × %g: %g s, expected %g", c.model, c.factor, got, c.want)
		}
	}
	staged := &prompts{passes: p.passes, stages: 2, send: 3}
	near(t, "two stages", staged.seconds(&asModelled), (38+19)/2.+3)
	// Kernels of 2, the link of 2 and the whole step of 1.5 lengthen 38 s by 16, 24 and 19 s. They
	// shorten it by 5, 6 and 38/3 s.
	v := (&Uncertainty{2, 1, 1, 2, 1, 1, 1.5}).of(p.seconds)
	near(t, "high", v.High, 38+math.Hypot(math.Hypot(16, 24), 19))
	near(t, "low", v.Low, 38-math.Hypot(math.Hypot(5, 6), 38/3.))
}

// On the roofline, TTFT is too long or short by the factors of kernels and of the whole step.
func TestFirstTokensInterval(t *testing.T) {
	r := prefilled(t, 1, 0, nil)
	factor := FirstTokens.Factor()
	near(t, "high", r.TTFTInterval.High, (1+math.Hypot(rooflineFactor-1, factor-1))*r.TTFT)
	near(t, "low", r.TTFTInterval.Low, (1-math.Hypot(1-1/rooflineFactor, 1-1/factor))*r.TTFT)
	hosted := prefilled(t, 1, 64, func(o *Options) { o.Schedule = scheduleOf(t, "flexgen:weights=host") })
	link := hosted.TTFTInterval.Submodels["link"]
	if link.Slow < 0.35 || link.Slow > linkFactor-1 {
		t.Errorf("small passes with weights on the host: the link lengthens TTFT by %g, expected almost %g", link.Slow, linkFactor-1)
	}
	if alone := prefilled(t, 1, 0, func(o *Options) { o.Prefill = Prefill{} }); alone.TTFTInterval != nil {
		t.Errorf("without a prompt TTFT is in %v", alone.TTFTInterval)
	}
}

// Weights on the host move once for each pass, and the KV of earlier chunks again.
func TestFirstTokensOfOffloading(t *testing.T) {
	host := func(o *Options) { o.Schedule = scheduleOf(t, "flexgen:weights=host") }
	m := prefilled(t, 1, 0, nil)
	one, two := prefilled(t, 1, 0, host), prefilled(t, 1, 2048, host)
	if one.TTFT < m.TTFT || two.TTFT < 1.9*one.TTFT {
		t.Errorf("one pass takes %g s, two take %g s, and %g s with the weights on the GPU", one.TTFT, two.TTFT, m.TTFT)
	}
}

// A stated chunk adds its activations to the reserve, and the estimate to a stated share.
func TestPrefillReserve(t *testing.T) {
	reserve := func(batch int, chunk int64, share float64) float64 {
		return prefilled(t, batch, chunk, func(o *Options) { o.Reserve = share }).Memory.Reserve
	}
	plain, chunk := reserve(1, 0, 0), reserve(1, 2048, 0)
	numbers := 3*4096. + 2*4096 + 2*1024 + 2*14336
	near(t, "activations", chunk-plain, (2048-1)*numbers*hardware.HalfBytes)
	near(t, "share", reserve(1, 2048, 0.1)-chunk, reserve(1, 0, 0.1))
	near(t, "whole prompts", reserve(3, 4096*2+5, 0)-reserve(3, 0, 0), (2*4096-3)*numbers*hardware.HalfBytes)
}

func TestPrefillRefuses(t *testing.T) {
	for want, p := range map[string]Prefill{
		"prompt -1":                {Prompt: -1},
		"prefill chunk -5":         {Prompt: 1, Chunk: -5},
		"fewer than 4096 passes":   {Prompt: 1 << 20, Chunk: 256},
		"prompt 1073741825, expec": {Prompt: mostContext + 1},
	} {
		o := Options{Batch: 1, Prefill: p}
		if err := o.Bounds(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", p, err, want)
		}
	}
}

// Two stages take the four prompts in two passes. Each stage has half of a pass, and the second one
// begins when the first has ended.
func TestFirstTokensInStages(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	half := prefilled(t, 2, 0, nil).TTFT
	staged := prefilled(t, 4, 0, func(o *Options) { o.PipelineParallel, o.Network = 2, Networks(lib) }).TTFT
	if bytes := 2 * 4096 * 4096 * hardware.HalfBytes; staged < 1.5*half || staged > 1.5*half+float64(bytes)/100e9 {
		t.Errorf("two stages take %g s, one of half the prompts %g s", staged, half)
	}
}

// An indexer scores all pairs of a prompt. Up to K tokens attention is that of other models. In longer
// prompts each token attends to K tokens in the latent space.
func TestFirstTokensOfIndexer(t *testing.T) {
	machine, m := parts(t, "h200", "deepseek-v3.2")
	first := func(name string, prompt int) float64 {
		p, scaling, err := Decoding(prompt, 2, false, m)
		fatal.If(t, err)
		return priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, name), Batch: 2, Steps: 1, Experts: 64,
			Selection: operator.Selection{Method: "indexer", Tokens: 1}, Prefill: Prefill{Prompt: int64(prompt)}}).TTFT
	}
	gpu := machine.GPU
	matrix, low, memory := float64(gpu.AchievedBF16.Value), float64(gpu.AchievedFP8.Value), 0.87*float64(gpu.MemoryBandwidth.Value)
	project := func(s operator.Selection, queries float64) float64 {
		o, err := operator.NewRoofline(operator.Config{Machine: machine, Model: m, Selection: s, Experts: 64}).Layer(0, &operator.Load{Queries: queries})
		fatal.If(t, err)
		return o.Project
	}
	const layers, heads, k = 61, 128, 2048.
	for _, n := range []float64{1024, 2048, 2049, 32768} {
		pairs := n * (n + 1) // of two prompts
		scored := 2*64*128*pairs/low + 3*4*pairs/memory
		own := project(operator.Selection{Method: "indexer", Tokens: 1}, 2*n) - project(operator.Selection{}, 2*n)
		attention := 0.
		if n > k {
			latent := 2 * (k*(k+1) + 2*k*(n-k)) * heads * (2*512 + 64) / matrix
			attention = latent - 2*pairs*heads*(128+64+128)/matrix
		}
		near(t, "further time of an indexer", first("gpu", int(n))-first("dense", int(n)), layers*(scored+own+attention))
	}
}

// A pass of two halves takes the longer of its exchanges, and its kernels with the SMs that the exchanges
// take. Halves of two prompts each are as long as passes of two prompts.
func TestFirstTokensInHalves(t *testing.T) {
	m, model := parts(t, "h100", "deepseek-v3")
	lib, err := hardware.Load("")
	fatal.If(t, err)
	price := func(batch, experts int, overlap bool) *prompts {
		p, scaling, err := Decoding(4096, 2, false, model)
		fatal.If(t, err)
		r, err := newRunner(t.Context(), p, Options{Machine: m, Model: model, Scaling: scaling, Schedule: schedule.OnGPU{Dense: true}, Batch: batch, Steps: 1,
			Experts: experts, Network: Networks(lib), Prefill: Prefill{Prompt: 4096, Overlap: overlap}})
		fatal.If(t, err)
		first, err := r.firstTokens()
		fatal.If(t, err)
		return first
	}
	for _, experts := range []int{8, 32} {
		half, both := price(2, experts, false).passes[0], price(4, experts, true).passes[0]
		want := both.kernels // logits
		for _, l := range half.layers {
			want += l.number * max(2*l.network, 2*l.kernels+20./132*2*l.network)
		}
		near(t, "two halves", both.seconds(&asModelled), want)
		whole := price(4, experts, false)
		if got := both.seconds(&asModelled); got >= whole.seconds(&asModelled) {
			t.Errorf("%d GPUs: two halves take %g s, the whole %g", experts, got, whole.seconds(&asModelled))
		}
	}
	for want, o := range map[string]Options{"none is priced": {Batch: 4, Experts: 1}, "two prompts in a pass": {Batch: 1, Experts: 8}, "a larger --batch or --prefill-chunk": {Batch: 4, Experts: 8, Prefill: Prefill{Chunk: 4096}}} {
		p, scaling, err := Decoding(4096, 2, false, model)
		fatal.If(t, err)
		o.Machine, o.Model, o.Scaling, o.Schedule, o.Network = m, model, scaling, schedule.OnGPU{Dense: true}, Networks(lib)
		o.Prefill.Prompt, o.Prefill.Overlap = 4096, true
		if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	small, few := *m, *m.GPU
	few.SMs.Value, small.GPU = 10, &few
	p, scaling, err := Decoding(4096, 2, false, model)
	fatal.If(t, err)
	o := Options{Batch: 4, Experts: 8, Machine: &small, Model: model, Scaling: scaling, Schedule: schedule.OnGPU{Dense: true}, Network: Networks(lib), Prefill: Prefill{Prompt: 4096, Overlap: true}}
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "takes 20 SMs, but GPU h100 has 10") {
		t.Errorf("exchanges on more SMs than the GPU has: %v", err)
	}
}

// An iteration in which all requests decode takes as long as a step of a batch.
func TestIterationOfIndexer(t *testing.T) {
	machine, m := parts(t, "h200", "deepseek-v3.2")
	o := Options{Machine: machine, Model: m, Batch: 4, Experts: 64, Selection: operator.Selection{Method: "indexer", Tokens: 1}}
	for _, context := range []int64{500, 5000} {
		p, scaling, err := Decoding(int(context)-1, 2, false, m)
		fatal.If(t, err)
		o.Schedule, o.Scaling, o.Steps, o.Prefill = scheduleOf(t, "gpu"), scaling, 1, Prefill{}
		want := priced(t, p, o).TPOT
		o.Prefill.Chunk = 2048
		it, err := NewIterations(t.Context(), o, false)
		fatal.If(t, err)
		x := Iteration{TopK: it.TopK(), Outputs: 4}
		for range 4 {
			x.AddDecode(context, 0)
		}
		got, err := it.Seconds(&x)
		fatal.If(t, err)
		near(t, "iteration", got, want)
	}
}
