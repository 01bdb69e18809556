package operator

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

func fittedOn(t *testing.T, machine, model string, experts int) (*Fitted, *Roofline) {
	t.Helper()
	m, shape := parts(t, machine, model)
	method := "keys"
	if shape.Indexer != nil {
		method = "indexer"
	}
	r := NewRoofline(Config{Machine: m, Model: shape, Selection: Selection{Method: method, Tokens: 1}, Experts: experts})
	e, err := kernel.Estimate(m.GPU, pipelinetest.Library(t))
	fatal.If(t, err)
	return NewFitted(r, e), r
}

// Large operators take about the roofline's time, small ones a launch more. Both hold for dense,
// latent and MoE models.
func TestFittedNearRoofline(t *testing.T) {
	for _, c := range []struct {
		machine, model string
		experts        int
	}{{"h100", "llama-3.1-8b", 1}, {"a100-80", "llama-2-70b", 1}, {"h200", "deepseek-v3.2", 32}, {"l40s", "opt-6.7b", 1}} {
		f, r := fittedOn(t, c.machine, c.model, c.experts)
		for _, queries := range []float64{1, 64, 4096} {
			l := &Load{Requests: queries, Queries: queries, Context: 8192 * queries, Scored: 8192 * queries, Attended: 2048 * queries,
				Bytes: 2048 * queries * float64(r.Model.Entry.Value), Demand: 2048 * queries, Remade: true}
			layer := int(r.Model.Layers.Value) - 1
			have, err := f.Layer(layer, l)
			fatal.If(t, err)
			want, err := r.Layer(layer, l)
			fatal.If(t, err)
			for name, pair := range map[string][2]float64{"project": {have.Project, want.Project}, "post": {have.Post, want.Post}, "attend": {have.Attend, want.Attend}} {
				if !(pair[0] > 0.6*pair[1] && pair[0] < 3*pair[1]+50e-6) {
					t.Errorf("%s on %s, %g queries, %s: %.1f us, roofline %.1f us", c.model, c.machine, queries, name, pair[0]*1e6, pair[1]*1e6)
				}
			}
			if have.LookupGPU != want.LookupGPU || r.Model.Indexer == nil && have.Select != want.Select {
				t.Errorf("%s: selection or lookup differ from the roofline's", c.model)
			}
			if !(have.Select >= want.Select) {
				t.Errorf("%s: selection takes %g s, the roofline %g", c.model, have.Select, want.Select)
			}
			if share := have.Recompute / want.Recompute; share < 0.9 || share > 1.6 { // of a large product
				t.Errorf("%s: recomputation takes %g of the roofline's time", c.model, share)
			}
		}
	}
}

// On a GPU where the indexer and sparse attention are measured, a layer takes the measured times. These are
// rows of replay/kernel/data/llmservingsim-sparse.csv. Two queries of a request read its keys once. On H800,
// attention reaches 410 TFLOP/s, as FlashMLA states.
func TestIndexer(t *testing.T) {
	f, r := fittedOn(t, "rtx-pro-6000-server", "deepseek-v3.2", 1)
	load := func(requests, queries, context float64) *Load {
		return &Load{Requests: requests, Queries: queries, Context: context * requests, Scored: context * queries,
			Attended: 2048 * queries, Bytes: 2048 * requests * float64(r.Model.Entry.Value)}
	}
	for _, c := range []struct{ requests, context, index, attention float64 }{
		{1, 16384, 21.9097, 51.0307}, {16, 131072, 231.895, 183.563}, {256, 131072, 3401.48, 884.527},
	} {
		o, err := f.Layer(40, load(c.requests, c.requests, c.context))
		fatal.If(t, err)
		for name, pair := range map[string][2]float64{"indexer": {o.Select, c.index}, "attention": {o.Attend, c.attention}} {
			if e := pair[0]*1e6/pair[1] - 1; math.Abs(e) > 0.1 {
				t.Errorf("%s of %g requests: %.1f us, measured %.1f", name, c.requests, pair[0]*1e6, pair[1])
			}
		}
	}
	one, err := f.Layer(40, load(64, 64, 131072))
	fatal.If(t, err)
	two, err := f.Layer(40, load(64, 128, 131072))
	fatal.If(t, err)
	if share := two.Select / one.Select; share < 1 || share > 1.2 {
		t.Errorf("two queries select in %g of the time of one", share)
	}
	f, r = fittedOn(t, "h800", "deepseek-v3.2", 1)
	l := load(4096, 4096, 131072)
	o, err := f.Layer(40, l)
	fatal.If(t, err)
	if rate := attentionFLOP(r.Model, l.Attended) / o.Attend / 1e12; math.Abs(rate-410) > 4 {
		t.Errorf("attention on H800 reaches %.0f TFLOP/s, expected 410", rate)
	}
}

// The launches of the kernels of a selection and of an entry count with the kernel model, if public code
// states the kernels: 20 of means and 4 of V with K from factors. A context of one group has nothing to select.
func TestLaunchesOfSelection(t *testing.T) {
	f, r := fittedOn(t, "a100-80", "llama-3.1-8b", 1)
	f.gap = 1e-6
	one := f.estimator.Launch(kernel.Norm) + f.gap
	l := &Load{Requests: 2, Queries: 2, Context: 2 * 8192, Scored: 2 * 8192, Attended: 2 * 1024, Bytes: 1e6}
	for text, kernels := range map[string]float64{"mean": 20, "mean:tokens=8192": 0, "minmax": 0, "keys": 0} {
		r.Selection = selectionOf(t, text, r.Model)
		have, err := f.Layer(0, l)
		fatal.If(t, err)
		want, err := r.Layer(0, l)
		fatal.If(t, err)
		near(t, text, have.Select, want.Select+kernels*one)
	}
	near(t, "v", f.launches(entryOf(t, "v", r.Model).kernels()), 4*one)
	near(t, "int4", entryOf(t, "int4", r.Model).kernels(), 0)
}

// A layer has norms inside of attention and kernels that choose experts. By hand, for two tokens: Qwen3
// 30B A3B has 128 experts and chooses 8 a token, so both tokens choose 128 · (1 − (15/16)²) = 15.5.
// DeepSeek-V3 adds the output of its shared expert, and norms latents of 512 and 1536.
func TestExpertsAndNorms(t *testing.T) {
	for model, c := range map[string]struct {
		chosen, shared float64
		norms          [][2]float64 // rows and widths, for two tokens
	}{
		"qwen3-30b-a3b": {15.5, 0, [][2]float64{{64, 128}, {8, 128}}}, "mixtral-8x7b": {3.5, 0, nil},
		"deepseek-v3": {15.75, 2048, [][2]float64{{2, 512}, {2, 1536}}}, "llama-3.1-8b": {},
	} {
		f, r := fittedOn(t, "a100-80", model, 1)
		f.gap = 1e-6
		want := 0.
		for _, n := range c.norms {
			want += f.seconds(kernel.NewNorm(n[0], n[1], false))
		}
		near(t, model+" norms", f.innerNorms(2), want)
		e := r.Model.MoE
		if e == nil {
			continue
		}
		all, hidden, wide := float64(e.Experts.Value), float64(r.Model.Hidden.Value), float64(e.FFN.Value)
		experts := kernel.NewExperts(2, 2*float64(e.Active.Value), c.chosen, hidden, wide, 3, r.Model.WeightBytes(hardware.Experts))
		want = f.products(2, hardware.Plain, []matrix{{all, hidden}}) + f.seconds(kernel.NewNorm(2, all, false)) + f.seconds(experts) + 5e-6
		if c.shared > 0 {
			want += f.dense(2, c.shared) + f.seconds(kernel.NewAdd(2, hidden))
		}
		near(t, model+" experts", f.feedForward(int(r.Model.Layers.Value)-1, 2, 2), want)
	}
}

// Notes tell measured GPUs from others.
func TestFittedNotes(t *testing.T) {
	measured, _ := fittedOn(t, "h100", "llama-3.1-8b", 1)
	other, _ := fittedOn(t, "h200", "llama-3.1-8b", 1)
	if a, b := strings.Join(measured.Notes(), "\n"), strings.Join(other.Notes(), "\n"); !strings.Contains(a, "fitted to measurements of h100: products, norms and activation; not measured on h100") ||
		!strings.Contains(b, "not measured on h200, by constants of other GPUs: products") {
		t.Errorf("%s\n%s", a, b)
	}
}

// nextToPrompts holds measured shares by the number of requests, next to a part of a prompt: (unequal − equal at
// the mean) ÷ (equal at the longest − equal at the mean). unequalAlone has those without prompts. Source:
// profiler/perf/*/meta-llama/Llama-3.1-8B/bf16/tp1/skew_fit.csv of casys-kaist/LLMServingSim, of RTX 4090
// (commit 4806d57b) and RTX PRO 6000 (0d3de681), for 4 requests or more, without the shortest contexts (lev0).
var nextToPrompts = []map[int][]float64{
	{
		4:   {0.5067, 0.442, 0.4556},
		8:   {0.3167, 0.3151, 0.3297, 0.178, 0.3214, 0.5206},
		16:  {0.1303, 0.1317, 0.1231, 0.1823, 0.1995, 0.0865, 0.1751, 0.2072},
		32:  {0.0352, 0.0391, 0.0468, 0.0589, 0.0844, 0.0944, 0.0772, 0.0744, 0.1161},
		64:  {0.0269, 0.0111, 0.0204, 0.0401, 0.0353, 0.0518, 0.0192, 0.0952, 0.0363, 0.0615, 0.0671},
		128: {0.0173, 0.0054, 0.0073, 0.0136, 0.0069, 0.0078, 0.0089, -0.0007, 0.004, 0.0077, 0.007},
	}, {
		4:   {0.794, 0.9266, 0.7062, 0.6534},
		8:   {0.079, 0.2984, 0.3898, 0.3082, 0.3674, 0.4246},
		16:  {0.0439, 0.2519, 0.2682, 0.1107, 0.2324, 0.2903, 0.1947, 0.2666},
		32:  {0.0246, 0.0799, 0.1111, -0.0123, 0.054, 0.1016, 0.0389, 0.097, 0.0622},
		64:  {0.0247, 0.0375, 0.0464, 0.0519, -0.016, 0.0179, 0.0412, 0.0414, 0.0275, 0.006, 0.0262, 0.037},
		128: {0.1136, 0.0284, 0.0301, 0.0422, 0.0887, 0.0542, 0.0384, 0.0183, 0.0566, 0.0917, 0.0754, 0.0196},
	},
}

var unequalAlone = []float64{0.0298, 0.0761, 0.0058,
	0.0256, 0.023, 0.0164, -0.0042, 0.0132, -0.0012, 0.0197, 0.0111, 0.0612, 0.0135, 0.0285, 0.0192, 0.0809, 0.0277, 0.0192, 0.0782, 0.0392}

// The constants of unequal contexts are the medians of the measured shares.
func TestUnequalShares(t *testing.T) {
	var tails []float64
	for _, device := range nextToPrompts {
		for n, shares := range device {
			for _, share := range shares {
				tails = append(tails, float64(n)*share)
			}
		}
	}
	if median := medianOf(tails); math.Abs(median-tailRequests) > 0.05 {
		t.Errorf("the median of requests × share is %g, expected %g", median, tailRequests)
	}
	if median := medianOf(unequalAlone); math.Abs(median-unequalShare) > 0.0005 {
		t.Errorf("the median without prompts is %g, expected %g", median, unequalShare)
	}
}

// besidePrompts holds measured times of a call of attention, in us, by requests that decode and their cached
// tokens. Each call has a part of a prompt too: 32 tokens on RTX 4090, and 16 after 81 on RTX PRO 6000. Source:
// profiler/perf/*/tp1/attention.csv of casys-kaist/LLMServingSim, commits a09fa560, 0d3de681 and 72c16bac.
var besidePrompts = []struct {
	device, model string
	times         map[[2]int]float64
}{
	{"rtx4090", "llama-3.1-8b", map[[2]int]float64{
		{8, 128}: 30.73, {8, 512}: 58.48, {8, 2048}: 152.5, {8, 8192}: 532.8, {16, 128}: 48.98, {16, 512}: 97.96, {16, 2048}: 287.2, {16, 8192}: 1053,
		{32, 128}: 83.08, {32, 512}: 178.2, {32, 2048}: 555.8, {32, 8192}: 2090, {64, 128}: 158.0, {64, 512}: 366.0, {64, 2048}: 1171, {64, 8192}: 4724,
		{128, 128}: 307.8, {128, 512}: 773.9, {128, 2048}: 4520, {128, 8192}: 18009}},
	{"rtx-pro-6000-server", "llama-3.1-8b", map[[2]int]float64{
		{8, 122}: 13.95, {8, 410}: 28.09, {8, 1384}: 68.10, {8, 4671}: 205.7, {16, 122}: 18.99, {16, 410}: 41.73, {16, 1384}: 101.3, {16, 4671}: 307.9,
		{32, 122}: 32.95, {32, 410}: 79.80, {32, 1384}: 196.2, {32, 4671}: 651.9, {64, 122}: 59.18, {64, 410}: 146.7, {64, 1384}: 360.4, {64, 4671}: 1650,
		{128, 122}: 117.1, {128, 410}: 314.3, {128, 1384}: 828.7, {128, 4671}: 4862}},
	{"rtx-pro-6000-server", "qwen3-30b-a3b", map[[2]int]float64{
		{8, 122}: 13.78, {8, 410}: 29.08, {8, 1384}: 70.82, {8, 4671}: 217.2, {16, 122}: 19.14, {16, 410}: 43.09, {16, 1384}: 105.4, {16, 4671}: 323.8,
		{32, 122}: 33.63, {32, 410}: 82.18, {32, 1384}: 202.4, {32, 4671}: 641.8, {64, 122}: 57.43, {64, 410}: 144.7, {64, 1384}: 368.7, {64, 4671}: 1409,
		{128, 122}: 111.0, {128, 410}: 307.7, {128, 1384}: 805.1, {128, 4671}: 4651}},
}

// Requests that decode next to a prompt take as long as measured. Their own kernel would be faster by far.
func TestBesidePrompts(t *testing.T) {
	var signed, absolute, apart []float64
	for _, of := range besidePrompts {
		f, _ := fittedOn(t, of.device, of.model, 1)
		for shape, us := range of.times {
			requests, context := float64(shape[0]), float64(shape[0]*(shape[1]+1))
			price := func(l Load) float64 {
				o, err := f.Layer(0, &l)
				fatal.If(t, err)
				return o.AttendAll
			}
			alone := Load{Requests: requests, Queries: requests, Context: context, Scored: context}
			beside := alone
			beside.Chunks = []Chunk{{Tokens: 16}}
			e := (f.estimator.Launch(kernel.Prefill)+price(beside))/(us*1e-6) - 1
			signed, absolute = append(signed, e), append(absolute, math.Abs(e))
			apart = append(apart, price(alone)/(us*1e-6)-1)
		}
	}
	if median := medianOf(signed); math.Abs(median) > 0.015 {
		t.Errorf("the median error is %.3f, expected 0", median)
	}
	if median := medianOf(absolute); median > 0.065 || absolute[len(absolute)*95/100] > 0.325 {
		t.Errorf("a median |error| of %.3f and a 95th percentile of %.3f, expected 0.064 and 0.32", median, absolute[len(absolute)*95/100])
	}
	if median := medianOf(apart); median > -0.44 {
		t.Errorf("their own kernel has a median error of %.3f, expected -0.45", median)
	}
}

// Hopper, and vLLM before its V1, attend for requests that decode in a kernel of their own, also next to prompts.
func TestAttendApart(t *testing.T) {
	for _, c := range []struct {
		machine     string
		apart, same bool
	}{{"h100", false, true}, {"a40", true, true}, {"a40", false, false}} {
		f, _ := fittedOn(t, c.machine, "llama-3.1-8b", 1)
		f.apart = c.apart
		l := Load{Requests: 64, Queries: 80, Context: 64 * 400, Scored: 64 * 400}
		alone, err := f.Layer(0, &l)
		fatal.If(t, err)
		l.Chunks = []Chunk{{Tokens: 16}}
		beside, err := f.Layer(0, &l)
		fatal.If(t, err)
		if same := alone.AttendAll == beside.AttendAll; same != c.same || beside.AttendAll < alone.AttendAll {
			t.Errorf("%s, apart %t: attention takes %g s alone and %g s next to a prompt", c.machine, c.apart, alone.AttendAll, beside.AttendAll)
		}
	}
}

func medianOf(list []float64) float64 {
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// Four requests with 4000 tokens together, one of which has 2500, take a share of the way to 10,000 tokens.
func TestUnequalContexts(t *testing.T) {
	f, _ := fittedOn(t, "h100", "llama-3.1-8b", 1)
	attend := func(context, longest float64, chunks ...Chunk) float64 {
		o, err := f.Layer(0, &Load{Requests: 4, Queries: 4, Context: context, Scored: context, Longest: longest, Chunks: chunks})
		fatal.If(t, err)
		return o.AttendAll
	}
	equal, most := attend(4000, 0), attend(10000, 0)
	near(t, "equal", attend(4000, 1000), equal)
	near(t, "alone", attend(4000, 2500), equal+unequalShare*(most-equal))
	near(t, "next to a prompt", attend(4000, 2500, Chunk{Tokens: 100}), equal+tailRequests/4*(most-equal))
}
