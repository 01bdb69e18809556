package operator

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
)

// The FLOP of DeepSeek-V3.2 per layer and query token follow from its published shape. Attention
// over 2048 latent entries takes 0.570 GFLOP, queries and their absorption 92.3 MFLOP, and indexer
// scores 0.537 GFLOP at 32K. If memory is no limit, the roofline's times are these divided by the
// rate.
func TestDeepSeekFLOP(t *testing.T) {
	machine, m := parts(t, "h200", "deepseek-v3.2")
	r := NewRoofline(Config{Machine: machine, Model: m, Selection: Selection{Method: "indexer", Tokens: 1}, Experts: 32})
	r.matrix, r.low, r.memory = 1, 1, math.Inf(1)
	o, err := r.Layer(10, &Load{Requests: 1, Queries: 1, Context: 32768, Scored: 32768, Demand: 2048, Attended: 2048, Bytes: 2048 * 656})
	fatal.If(t, err)
	near(t, "attention", o.Attend, 128*2048*(576+512)*2)
	near(t, "pre-attention", o.Pre, 2*(1536*128*192+128*128*512))
	near(t, "indexer", o.Select, 64*128*2*32768)
	// A layer multiplies with the weights that it stores, except for norms. Of 256 experts it uses
	// the 8 of each token.
	stored, active := m.FFNParameters(10)
	norms := 512. + 1536 + 2*128
	weights := o.Project + o.Pre + o.Post
	if want := 2 * m.AttentionParameters().Plus(active).Sum(); math.Abs(weights-want) > 2*norms {
		t.Errorf("products of %g FLOP, expected %g but for norms", weights, want)
	}
	if stored.Sum() <= active.Sum() {
		t.Errorf("a layer stores %g weights and uses %g", stored.Sum(), active.Sum())
	}
}

// A layer of Llama 3 8B has hidden size 4096, 32 heads and 8 of K and V × 128, and FFN size 14336.
// Its index has two vectors for four tokens. The test prices it at 1 FLOP/s with unlimited memory,
// and at 1 B/s with unlimited arithmetic.
func TestOperatorsByHand(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3-8b")
	load := &Load{Requests: 3, Queries: 6, Context: 3000, Scored: 6000, Demand: 512, Fetched: 40, Attended: 1000, Bytes: 77, Remade: true}
	const q, kv, hidden, ffn = 32 * 128, 8 * 128, 4096, 14336
	arithmetic := Times{Project: 2 * 6 * hidden * (q + 2*kv), Select: 6000 * 2 * q * 2 / 4, Attend: 2 * 1000 * q * 2, AttendAll: 2 * 6000 * q * 2,
		Post: 2 * 6 * (q*hidden + 3*hidden*ffn), Recompute: 2 * 3 * hidden * 2 * kv, LookupCPU: 512. / 4, Update: 2 * 40. / 4}
	// Bytes: weights once, the index, four bytes per score three times, and 3 sectors of 32 B per
	// entry.
	memory := Times{Project: 2 * hidden * (q + 2*kv), Select: 3000*kv*2*2/4 + 6000*8/4*4*3, Attend: 77, AttendAll: 3000 * 2 * 2 * kv,
		Post: 2 * (q*hidden + 3*hidden*ffn), LookupGPU: 512 * 3 * 32, LookupCPU: 512. / 4, Update: 2 * 40. / 4}
	for name, c := range map[string]struct {
		flop, bytes float64
		want        Times
	}{"arithmetic": {1, math.Inf(1), arithmetic}, "memory": {math.Inf(1), 1, memory}} {
		r := NewRoofline(Config{Machine: machine, Model: m, Selection: Selection{Method: "minmax", Tokens: 4}, Threads: 4})
		r.matrix, r.low, r.memory, r.latency = c.flop, c.flop, c.bytes, 1
		if got, err := r.Layer(0, load); err != nil || got != c.want {
			t.Errorf("%s: %+v, expected %+v: %v", name, got, c.want, err)
		}
	}
}

// KVPR's Table 1 prints these times for batch 32, 1024 tokens and FP16. Attention over one layer
// takes as long as reading its K and V from the GPU's own memory.
func TestKVPRTable1(t *testing.T) {
	for name, want := range map[string]float64{"opt-6.7b": 0.3509e-3, "opt-13b": 0.4388e-3, "opt-30b": 0.6143e-3} {
		machine, m := parts(t, "a100-40", name)
		r := NewRoofline(Config{Machine: machine, Model: m, Selection: Selection{Method: "keys", Tokens: 1}})
		o, err := r.Layer(0, &Load{Requests: 32, Queries: 32, Context: 32 * 1024, Scored: 32 * 1024})
		fatal.If(t, err)
		if math.Abs(o.AttendAll/want-1) > 0.005 {
			t.Errorf("%s: %g s, the paper prints %g", name, o.AttendAll, want)
		}
	}
}

// Weights of one byte are multiplied at the FP8 rate if the GPU has one. Attention is not, and weights of
// 4 bits are not.
func TestRates(t *testing.T) {
	for name, fp8 := range map[string]bool{"h100": true, "a100-40": false} {
		for model, bytes := range map[string]float64{"deepseek-v3.2": 1, "llama-3-8b": 2} {
			machine, m := parts(t, name, model)
			if float64(m.BytesPerParameter.Value) != bytes {
				t.Fatalf("%s has %v a weight", model, m.BytesPerParameter.Value)
			}
			r := NewRoofline(Config{Machine: machine, Model: m, Selection: Selection{Method: "keys", Tokens: 1}})
			if faster := r.low > r.matrix; faster != (fp8 && bytes == 1) || r.low < r.matrix {
				t.Errorf("%s on %s: weights at %g FLOP/s, the rest at %g", model, name, r.low, r.matrix)
			}
			four := *m
			four.BytesPerParameter.Value = 0.5
			r = NewRoofline(Config{Machine: machine, Model: &four, Selection: Selection{Method: "keys", Tokens: 1}})
			near(t, "product with many tokens", r.attending(1e6, 1e6), 2e12/r.matrix)
			f, _ := fittedOn(t, name, model, 1)
			f.roofline.Model = &four
			seconds := f.products(1<<16, hardware.Attention, []matrix{{8192, 8192}})
			if low := f.seconds(kernel.NewProduct(1<<16, 8192, 8192, 1)); fp8 && seconds < 1.2*low {
				t.Errorf("%s on %s: weights of 4 bits compute in %g s, those of FP8 in %g", model, name, seconds, low)
			}
		}
	}
}

// Products of NVFP4 weights take the FP4 rate of the GPU, and the BF16 rate without one. Those with plain
// weights do not.
func TestFP4(t *testing.T) {
	for name, rate := range map[string]float64{"b200": 5702e12, "h100": 0} {
		machine, m := parts(t, name, "llama-3-8b")
		four := *m
		four.NVFP4, four.BytesPerParameter.Value = true, hardware.NVFP4Bytes
		r := NewRoofline(Config{Machine: machine, Model: &four, Selection: Selection{Method: "keys", Tokens: 1}})
		if rate == 0 {
			rate = r.matrix
			if notes := strings.Join(r.Notes(), " "); !strings.Contains(notes, "h100 has no FP4: weights of llama-3-8b are computed at its BF16 rate") {
				t.Errorf("%s: notes %q", name, notes)
			}
		}
		near(t, "product on "+name, r.attending(1e6, 1e6), 2e12/rate)
		near(t, "speed on "+name, r.speed(hardware.Attention), rate)
		logits, err := r.Output(1e6)
		fatal.If(t, err)
		near(t, "logits on "+name, logits, 2*1e6*float64(m.Hidden.Value*m.Vocabulary.Value)/r.matrix)
		f, _ := fittedOn(t, name, "llama-3-8b", 1)
		f.roofline.Model = &four
		low, high := f.products(1<<16, hardware.Attention, []matrix{{8192, 8192}}), f.products(1<<16, hardware.Plain, []matrix{{8192, 8192}})
		if faster := high / low; name == "b200" && faster < 2.5 || name == "h100" && math.Abs(faster-1) > 0.05 {
			t.Errorf("%s: products of NVFP4 weights are %g times as fast as those of plain weights", name, faster)
		}
	}
}

// The logits of an FP8 model read a matrix in BF16, with both kernel models. A router has BF16 too.
func TestPlainProducts(t *testing.T) {
	f, r := fittedOn(t, "h200", "deepseek-v3", 64)
	seconds, err := r.Output(4)
	fatal.If(t, err)
	near(t, "logits of the roofline", seconds, 2*129280*7168/r.memory)
	f.sampled = 0
	seconds, err = f.Output(4)
	fatal.If(t, err)
	near(t, "logits", seconds, f.seconds(kernel.NewNorm(4, 7168, true))+f.seconds(kernel.NewProduct(4, 129280, 7168, 2))+f.seconds(kernel.NewSample(4, 0)))
	near(t, "router", f.products(4, hardware.Plain, []matrix{{256, 7168}}), f.seconds(kernel.NewProduct(4, 256, 7168, 2)))
}

func TestParseSelection(t *testing.T) {
	_, deepseek := parts(t, "h100", "deepseek-v3.2")
	_, llama := parts(t, "h100", "llama-3-8b")
	s, err := ParseSelection("auto", deepseek)
	if err != nil || s.String() != "indexer" || s.Cost(deepseek).Token != 132 {
		t.Errorf("auto is %v with %g B a Token: %v", s, s.Cost(deepseek).Token, err)
	}
	// A vector of a KV head has 256 B. For 120K tokens, Quest keeps 2 vectors and ShadowKV 1 per
	// chunk of 8. KVDrive keeps 1 per 16 tokens. The ratio is 4 : 2 : 1.
	for text, want := range map[string]float64{"minmax:tokens=8": 30720, "mean": 15360, "centroids": 7680} {
		s, err := ParseSelection(text, llama)
		fatal.If(t, err)
		near(t, text, s.Cost(llama).Token*122880/8/256, want)
	}
	for text, want := range map[string]string{"indexer": "has no indexer", "means": "known: auto, indexer", "mean:tokens=0": "between 1", "keys:tokens=2": "unknown option", "mean:rank=160": "unknown option", "lsh:bits=0": "between 1",
		"partial:share=0": "no column", "partial:share=0.005": "no column", "pq:parts=3": "no 3 equal parts"} {
		if _, err := ParseSelection(text, llama); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// A GPU takes less time if its experts run over half of its tokens. With half of the tokens it takes still
// less, because its other operators have less work too.
func TestRoutedTokens(t *testing.T) {
	machine, m := parts(t, "h100", "qwen3-30b-a3b")
	estimator, err := kernel.Fitted(pipelinetest.Library(t))(machine.GPU)
	fatal.If(t, err)
	roofline := NewRoofline(Config{Machine: machine, Model: m, Experts: 2})
	for name, c := range map[string]Pricer{"roofline": roofline, "fitted": NewFitted(roofline, estimator)} {
		post := func(queries, routed float64) float64 {
			o, err := c.Layer(0, &Load{Requests: queries, Queries: queries, RoutedTokens: routed})
			fatal.If(t, err)
			return o.Post
		}
		if all, mean, few := post(4096, 0), post(4096, 2048), post(2048, 0); all != post(4096, 4096) || !(few < mean && mean < all) {
			t.Errorf("%s: %g s, %g s if experts run over half of the tokens, %g s for half of the tokens", name, all, mean, few)
		}
	}
}

// The Roofline's arithmetic of a layer that is run again equals eLLM's Eq. 2 without the vocabulary
// and with causal attention. The shape has the paper's FFN of two 4h matrices.
func TestAgainIsEq2(t *testing.T) {
	machine, found := parts(t, "a100-80", "opt-13b")
	m := *found
	m.Bias = false
	r := NewRoofline(Config{Machine: machine, Model: &m})
	r.memory = math.Inf(1)
	const n, h = 700., 5120.
	o, err := r.Layer(0, &Load{Requests: 1, Again: n, Pairs: n * n / 2})
	fatal.If(t, err)
	near(t, "a layer run again", o.Again*r.matrix, 24*h*h*n+2*h*n*n)
}
