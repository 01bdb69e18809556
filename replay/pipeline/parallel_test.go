package pipeline

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// parallelOptions are those of a batch of equal requests of a model on GPUs that divide its layers.
// The network's times are exact: no measurement corrects them.
func parallelOptions(t *testing.T, model string, gpus int) (*Profile, Options) {
	t.Helper()
	machine, err := library(t).Machine("h100")
	fatal.If(t, err)
	shape, err := library(t).Model(model)
	fatal.If(t, err)
	p, scaling, err := Decoding(1024, 4, false, shape)
	fatal.If(t, err)
	constants := collective.Constants{Call: 10e-6, Hop: 1e-6, Share: 0.5}
	fit := collective.Fit{Constants: constants, Basis: []string{"a test"}}
	n := &collective.Network{Link: 100e9, NCCL: fit, Kernels: fit}
	return p, Options{Machine: machine, Model: shape, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 16,
		Threads: 1, TensorParallel: gpus, Network: func(*hardware.Machine, int) (*collective.Network, error) { return n, nil }}
}

func engineOf(t *testing.T, name string) *operator.Engine {
	t.Helper()
	e, err := operator.ParseEngine(name)
	fatal.If(t, err)
	return e
}

func priceParallel(t *testing.T, p *Profile, o Options) *Result {
	t.Helper()
	r, err := Price(t.Context(), p, o)
	fatal.If(t, err)
	return r
}

// Llama 2 70B on 4 GPUs, by hand: 64 query heads, 8 KV heads, an FFN of 28672 and 32000 words are
// divided by 4, and an entry of 4096 B too. On 16 GPUs two would share each KV head.
func TestShard(t *testing.T) {
	m, err := library(t).Model("llama-2-70b")
	fatal.If(t, err)
	type part struct{ queries, kv, ffn, words, entry float64 }
	for n, want := range map[int]part{4: {16, 2, 7168, 8000, 1024}, 16: {4, 1, 1792, 2000, 512}} {
		s := shard(m, n)
		got := part{float64(s.QueryHeads.Value), float64(s.KVHeads.Value), float64(s.FFN.Value),
			float64(s.Vocabulary.Value), float64(s.Entry.Value)}
		if got != want || s.Hidden != m.Hidden || s.Layers != m.Layers {
			t.Errorf("1 of %d GPUs has %+v, expected %+v", n, got, want)
		}
	}
	if m.QueryHeads.Value != 64 || m.Entry.Value != 4096 {
		t.Error("shard changed the model")
	}
}

// A step on 4 GPUs is a step of one part and its communication: two all-reduces a layer, one after
// the embedding, and the gather of the logits. By hand: 16 tokens of 8192 numbers of 2 B are 262144 B.
// A two-shot kernel sends 1.5 of that at 50 GB/s, after 10 us and a hop of 1 us. NCCL has 2·2 hops. The
// CPU of engine eager takes 404 us and 2·22 us a layer, more than the GPU. The logits are 16 × 32000
// × 2 B = 1.024 MB. Each GPU receives 3/4 of that at the same rate, after 11 us.
func TestTensorParallelByHand(t *testing.T) {
	p, o := parallelOptions(t, "llama-2-70b", 4)
	got := priceParallel(t, p, o)
	one := o
	one.TensorParallel, one.Model = 1, shard(o.Model, 4)
	alone := priceParallel(t, p, one)
	bytes, gather := 1.5*262144/50e9, 11e-6+0.75*1.024e6/50e9
	communication := (2*80+1)*(11e-6+bytes) + gather
	round := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s is %.12g, expected %.12g", what, got, want)
		}
	}
	round("all-reduce", got.Causes[schedule.Communication], communication)
	round("compute", got.Causes[schedule.Compute], alone.Causes[schedule.Compute])
	round("step", got.Mean, alone.Mean+communication)
	round("tokens/s of a GPU", got.Tokens, 16/got.TPOT/4)
	for name, hops := range map[string]float64{"cpp": 4e-6 + bytes, "graphs": 1e-6} {
		o.Engine = engineOf(t, name)
		round("all-reduce of "+name, priceParallel(t, p, o).Causes[schedule.Communication], (2*80+1)*(10e-6+hops+bytes)+gather)
	}
	o.Engine, o.Batch = engineOf(t, "eager"), 1
	slow := priceParallel(t, p, o)
	o.Engine = engineOf(t, "none")
	fast := priceParallel(t, p, o)
	outside := fast.Causes[schedule.Communication] - 2*80*(11e-6+bytes/16) // of a step: one all-reduce and the gather
	vocabulary := slow.Mean - outside - 80*(404.1666667e-6+44e-6)
	if vocabulary <= 0 || vocabulary > 0.1*slow.Mean || slow.Mean <= fast.Mean {
		t.Errorf("engine eager takes %g s and none %g s: %g s are left for the vocabulary", slow.Mean, fast.Mean, vocabulary)
	}
	if notes := strings.Join(slow.Notes, "\n"); !strings.Contains(notes, "at least 0.404 ms a layer, 22 us more for each all-reduce") {
		t.Errorf("notes %s", notes)
	}
	round("weights", got.Memory.Weights, alone.Memory.Weights)
	round("cache", got.Memory.Cache, 16*1027*1024*80) // the last step makes token 4 from a prompt of 1024 and 3 more
	if alone.Causes[schedule.Communication] != 0 || got.TensorParallel != 4 || alone.TensorParallel != 1 {
		t.Errorf("one GPU reduces for %g s, and results state %d and %d GPUs",
			alone.Causes[schedule.Communication], got.TensorParallel, alone.TensorParallel)
	}
	whole := o.Model.GPUBytes(1)
	if share := got.Memory.Weights / whole; math.Abs(share-0.25) > 1e-9 {
		t.Errorf("a GPU of 4 has %g of the weights, expected a quarter", share)
	}
}

// Degrees that cannot be priced are errors that say why.
func TestTensorParallelRefused(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"does not divide 64 query heads":       func(o *Options) { o.TensorParallel = 3 },
		"tensor-parallel GPUs 16":              func(o *Options) { o.TensorParallel = 16 },
		"tensor-parallel GPUs -1":              func(o *Options) { o.TensorParallel = -1 },
		"runs on one GPU: choose dense or gpu": func(o *Options) { o.Schedule = scheduleOf(t, "kvpr") },
		"--expert-gpus 2 divides whole":        func(o *Options) { o.Model, o.Experts = routedModel(t), 2 },
		"experts of a width of 1406 evenly":    func(o *Options) { o.Model = narrow(routedModel(t)) },
		"needs a network between":              func(o *Options) { o.Network = nil },
		"an FFN of 28671 evenly":               func(o *Options) { m := *o.Model; m.FFN.Value--; o.Model = &m },
		"divide 64 query heads, 6 KV heads":    func(o *Options) { m := *o.Model; m.KVHeads.Value = 6; o.Model = &m },
	} {
		p, o := parallelOptions(t, "llama-2-70b", 4)
		change(&o)
		if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// narrow returns a model whose experts have a width that is 2 smaller.
func narrow(m *hardware.Model) *hardware.Model {
	own, experts := *m, *m.MoE
	experts.FFN.Value -= 2
	own.MoE = &experts
	return &own
}

// DeepSeek-V3 on 8 GPUs, by hand. A GPU has 16 of 128 query heads, and all entries of 1152 B. It has an
// eighth of the width of 256 experts and of the shared one. The down-projections of 7168 × (512 + 64 +
// 1536) and the router of 7168 × 256 are whole.
func TestTensorParallelOfExperts(t *testing.T) {
	m, err := library(t).Model("deepseek-v3")
	fatal.If(t, err)
	s := shard(m, 8)
	if s.QueryHeads.Value != 16 || s.MoE.FFN.Value != 256 || s.FFN.Value != 2304 || s.Entry != m.Entry || m.MoE.FFN.Value != 2048 {
		t.Errorf("1 of 8 GPUs has %g heads, experts of %g, an FFN of %g and entries of %s", s.QueryHeads.Value, s.MoE.FFN.Value, s.FFN.Value, s.Entry.Value)
	}
	stored, active := s.FFNParameters(60)
	near(t, "stored", stored.Sum(), 257*3*7168*256+7168*256)
	near(t, "active", active.Sum(), 9*3*7168*256+7168*256)

	p, o := parallelOptions(t, "deepseek-v3", 8)
	o.Machine = machine(t, "h200")
	got := priceParallel(t, p, o)
	one := o
	one.TensorParallel, one.Experts, one.Model = 1, 1, shard(o.Model, 8)
	alone := priceParallel(t, p, one)
	// 16 tokens of 7168 numbers of 2 B are 229,376 B. A two-shot kernel sends 1.75 of that at 50 GB/s, after
	// 10 µs and a hop.
	reduce, gather := 11e-6+1.75*229376/50e9, 11e-6+0.875*16*129280*2/50e9
	near(t, "all-reduce", got.Causes[schedule.Communication], (2*61+1)*reduce+gather)
	near(t, "compute", got.Causes[schedule.Compute], alone.Causes[schedule.Compute])
	near(t, "cache", got.Memory.Cache, 16*1027*1152*61)
	if got.Experts != 1 || got.Causes[schedule.Dispatching] != 0 {
		t.Errorf("%d GPUs share experts, and dispatch takes %g s", got.Experts, got.Causes[schedule.Dispatching])
	}
}

// Sparse attention on two GPUs: a layer of one GPU is a layer of half the heads, with half of the
// demand. With latent attention both select everything, and half of the heads attend to it.
func TestTensorParallelOfSparseAttention(t *testing.T) {
	p := read(t, realProfile(t))
	for model, half := range map[string]bool{"llama-2-7b": true, "deepseek-v3.2": false} {
		_, o := parallelOptions(t, model, 2)
		o.Machine, o.Schedule = machine(t, "h200"), schedule.OnGPU{}
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "stretch", 2048); err != nil {
			t.Fatal(err)
		}
		if o.Selection, err = operator.ParseSelection("auto", o.Model); err != nil {
			t.Fatal(err)
		}
		got := priceParallel(t, p, o)
		own := *o.Scaling
		if half {
			own.Heads, own.Factor = own.Heads/2, own.Factor/2
		}
		one := o
		one.TensorParallel, one.Experts, one.Model, one.Scaling = 1, 1, shard(o.Model, 2), &own
		alone := priceParallel(t, p, one)
		near(t, model+" compute", got.Causes[schedule.Compute], alone.Causes[schedule.Compute])
		near(t, model+" selection", got.Causes[schedule.Selecting], alone.Causes[schedule.Selecting])
		near(t, model+" step", got.Mean, alone.Mean+got.Causes[schedule.Communication])
		one.Model, one.Scaling = o.Model, o.Scaling
		if all := priceParallel(t, p, one); (got.Causes[schedule.Selecting] < all.Causes[schedule.Selecting]) != half || got.Causes[schedule.Communication] == 0 || got.Causes[schedule.Compute] >= all.Causes[schedule.Compute] {
			t.Errorf("%s: %+v on two GPUs, %+v on one", model, got.Causes, all.Causes)
		}
	}
}

func routedModel(t *testing.T) *hardware.Model {
	t.Helper()
	m, err := library(t).Model("deepseek-v2-lite")
	fatal.If(t, err)
	return m
}

// expertOptions are those of a batch of 64 on GPUs that share the experts of DeepSeek-V3.2. The network
// is that of parallelOptions, and 50 GB/s between hosts.
func expertOptions(t *testing.T, gpus int) (*Profile, Options) {
	t.Helper()
	p, o := parallelOptions(t, "deepseek-v3.2", 1)
	o.Experts, o.Batch = gpus, 64
	return p, o
}

// By hand: 64 tokens of a GPU go to 8 experts each, with 7168 numbers of 1 B and 56 scales of 4 B. These
// are 3784704 B. Between 16 GPUs, half of them pass the network of 50 GB/s, after 35 us. BF16 has
// 7340032 B. 58 of 61 layers have experts. On 8 GPUs 7/8 pass the link of 50 GB/s.
func TestExpertExchangeByHand(t *testing.T) {
	for gpus, share := range map[int]float64{16: 0.5, 8: 7. / 8} {
		p, o := expertOptions(t, gpus)
		got := priceParallel(t, p, o)
		o.Network = nil
		free := priceParallel(t, p, o)
		dispatch, combine := 58*(35e-6+share*3784704/50e9), 58*(35e-6+share*7340032/50e9)
		for what, v := range map[string][2]float64{
			"dispatch": {got.Causes[schedule.Dispatching], dispatch}, "combine": {got.Causes[schedule.Combining], combine},
			"step": {got.Mean, free.Mean + dispatch + combine}, "free": {free.Causes[schedule.Dispatching] + free.Causes[schedule.Combining], 0},
		} {
			if math.Abs(v[0]-v[1]) > 1e-9*v[1] {
				t.Errorf("%d GPUs: %s is %.12g, expected %.12g", gpus, what, v[0], v[1])
			}
		}
	}
}

// With trtllm-pytorch each of 8 GPUs gets the tokens of all by an all-gather, and experts of the busiest take longer. FP8 with scales
// of blocks is gathered as BF16, and other FP8 without scales. Each token has 8 experts, of 8 B each. On one GPU neither counts.
func TestGatheredExperts(t *testing.T) {
	p, o := expertOptions(t, 8)
	o.Engine, o.Kernels = engineOf(t, "trtllm-pytorch"), fittedKernels(t)
	r, err := newRunner(t.Context(), p, o)
	fatal.If(t, err)
	dispatch, combine := r.exchange.Seconds(16, false)
	n, err := o.Network(o.Machine, 8)
	fatal.If(t, err)
	tokens, hidden := 8*16., float64(o.Model.Hidden.Value)
	near(t, "all-gather of BF16", dispatch, n.ReduceScatter(8, tokens*(2*hidden+8*8)))
	near(t, "reduce-scatter of BF16", combine, n.ReduceScatter(8, tokens*2*hidden))
	whole := *o.Model
	whole.ScaleBlock.Value = 0
	dispatch, _ = operator.NewExchange(&whole, n, 8, 0, true).Seconds(16, false)
	near(t, "all-gather of FP8", dispatch, n.ReduceScatter(8, tokens*(hidden+8*8)))
	notes := strings.Join(r.notes, "\n")
	for _, want := range []string{"all-gather and reduce-scatter of experts on 8 GPUs", "the busiest of 8 GPUs has 1.37 times"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q: %s", want, notes)
		}
	}
	o.Experts = 1
	if r, err = newRunner(t.Context(), p, o); err != nil || strings.Contains(strings.Join(r.notes, "\n"), "the busiest of") {
		t.Errorf("one GPU has the notes %q (%v)", r.notes, err)
	}
}

// Buffers of experts hold the tokens that a GPU gathers: 8 × 16, with 8 experts each. Qwen3 30B A3B has 2048 numbers in
// the first buffer. The second has two results of 768 numbers, or again 2048.
func TestGatheredBuffers(t *testing.T) {
	machine, m := parts(t, "h200", "qwen3-30b-a3b")
	for name, rows := range map[string]float64{"graphs": 16, "trtllm-pytorch": 8 * 16} {
		it, err := NewIterations(t.Context(), Options{Machine: machine, Model: m, Batch: 4, Engine: engineOf(t, name), Experts: 8, Prefill: Prefill{Chunk: 16}}, false)
		fatal.If(t, err)
		kept, _ := it.r.buffers(16)
		near(t, "buffers of "+name, kept, rows*8*(2048+2048)*2)
	}
}

// Notes name the constants of an exchange, or the missing number.
func TestExpertExchangeNotes(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"derived from constants of a test and 50 GB/s between hosts":  func(*Options) {},
		"on 8 GPUs: derived from constants of a test":                 func(o *Options) { o.Experts = 8 },
		"not counted: no network between GPUs is given":               func(o *Options) { o.Network = nil },
		"not counted: GPU gh200 states no peer_bandwidth":             func(o *Options) { o.Machine = machine(t, "gh200") },
		"not counted: machine a100-80 states no network_bandwidth":    func(o *Options) { o.Machine = machine(t, "a100-80") },
		"routed experts are divided among 32 GPUs, which leaves half": func(o *Options) { o.Experts = 0 },
		"divided among 8 GPUs, all that --gpus states":                func(o *Options) { o.Experts, o.Machine = 0, stated(t, "h100", 8) },
		"assumed, because no source states it":                        func(o *Options) { o.Machine = machine(t, "h200") },
		"h200 [network_bandwidth 50 GB/s]":                            func(o *Options) { o.Machine = machine(t, "h200") },
	} {
		p, o := expertOptions(t, 16)
		change(&o)
		notes := strings.Join(priceParallel(t, p, o).Notes, "\n")
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
		if o.Experts == 8 && strings.Contains(notes, "between hosts") {
			t.Error("a network between hosts counts within a host")
		}
	}
	p, o := expertOptions(t, 1)
	if notes := strings.Join(priceParallel(t, p, o).Notes, "\n"); strings.Contains(notes, "dispatch") {
		t.Errorf("one GPU exchanges nothing, but: %s", notes)
	}
}

// stated is the machine that --gpu and --gpus describe.
func stated(t *testing.T, gpu string, gpus int) *hardware.Machine {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	m, err := lib.Compose(hardware.Parts{GPU: gpu, GPUs: gpus})
	fatal.If(t, err)
	return m
}

// Experts stay on the GPUs that the user states. If their weights do not fit, the remedy names the flag.
// DeepSeek-V3.2 takes 102 GB of 8 GPUs each, which 141 GB hold and 86 GB do not.
func TestStatedGPUs(t *testing.T) {
	for gpu, want := range map[string]string{"h100": "--expert-gpus 32 divides the experts among GPUs of 4 hosts", "h200": ""} {
		p, o := expertOptions(t, 1)
		o.Experts, o.Machine = 0, stated(t, gpu, 8)
		r := priceParallel(t, p, o)
		if m := r.Memory; r.Experts != 8 || m.Remedy != want || (m.Verdict == "") != (want == "") {
			t.Errorf("%s: %d GPUs, %q, %q; expected 8 and %q", gpu, r.Experts, m.Verdict, m.Remedy, want)
		}
		o.Experts = 32
		if m := priceParallel(t, p, o).Memory; m.Verdict != "" || m.Remedy != "" {
			t.Errorf("%s with 32 GPUs: %q, %q", gpu, m.Verdict, m.Remedy)
		}
	}
}

// ownExchange has operators whose exchanges take 100 and 200 µs in layers with routed experts.
type ownExchange struct{ operator.Pricer }

func (x ownExchange) Layer(layer int, l *operator.Load) (operator.Times, error) {
	o, err := x.Pricer.Layer(layer, l)
	if o.RoutedShare > 0 {
		o.Dispatch, o.Combine = 100e-6, 200e-6
	}
	return o, err
}

// A study's operators replace the model's dispatch and combine.
func TestOwnExchange(t *testing.T) {
	p, o := expertOptions(t, 16)
	o.Override = func(usual operator.Pricer) operator.Pricer { return ownExchange{usual} }
	r := priceParallel(t, p, o)
	near(t, "dispatch", r.Causes[schedule.Dispatching], 58*100e-6)
	near(t, "combine", r.Causes[schedule.Combining], 58*200e-6)
	if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, "derived from constants") {
		t.Errorf("the study has the times, but: %s", notes)
	}
}

// The expected share of routed experts in the time after attention: all of the FFN but the shared expert.
func TestRoutedShare(t *testing.T) {
	p, o := expertOptions(t, 16)
	r, err := newRunner(t.Context(), p, o)
	fatal.If(t, err)
	fatal.If(t, r.priceStep(0))
	dense, moe := &r.step.Whole[0], &r.step.Whole[60]
	if dense.Dispatch+dense.Combine+dense.Routed != 0 || !(moe.Dispatch+moe.Combine > 0) || !(moe.Routed > 0 && moe.Routed < moe.Post) {
		t.Errorf("routed experts take %g of %g s in a dense layer, %g of %g s in the last", dense.Routed, dense.Post,
			moe.Routed, moe.Post)
	}
}
