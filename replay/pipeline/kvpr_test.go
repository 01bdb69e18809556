package pipeline

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// decoding prices OPT-13B on an A100 with PCIe 4.0.
func decoding(t testing.TB, text string, batch, prompt, generate int) *Result {
	t.Helper()
	machine, m := parts(t, "a100-40", "opt-13b")
	p, scaling, err := Decoding(prompt, generate, false, m)
	fatal.If(t, err)
	selection, err := operator.ParseSelection("auto", m)
	fatal.If(t, err)
	return priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Selection: selection, Schedule: scheduleOf(t, text), Batch: batch, Threads: 1})
}

// With KV in pageable memory a step takes as long as with all of host memory pageable, if no weights
// move. Weights stay pinned, so with them it is shorter. The same bytes move.
func TestPageableCache(t *testing.T) {
	machine, m := parts(t, "a100-40", "opt-13b")
	p, scaling, err := Decoding(512, 4, false, m)
	fatal.If(t, err)
	price := func(text, path string) *Result {
		return priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, text), Batch: 16, Threads: 1, Path: path})
	}
	pinned, all, cache := price("flexgen", ""), price("flexgen", "pageable"), price("flexgen:cache=pageable", "")
	near(t, "step", cache.Mean, all.Mean)
	near(t, "bytes", cache.H2D, pinned.H2D)
	if cache.Mean < 2*pinned.Mean {
		t.Errorf("a step takes %g s with pageable KV, %g s with pinned", cache.Mean, pinned.Mean)
	}
	pinned, all = price("flexgen:weights=host", ""), price("flexgen:weights=host", "pageable")
	cache = price("flexgen:weights=host,cache=pageable", "")
	if cache.Mean <= pinned.Mean || cache.Mean >= all.Mean {
		t.Errorf("with weights a step takes %g s, pinned %g s, all pageable %g s", cache.Mean, pinned.Mean, all.Mean)
	}
}

// The bytes of a step by hand, with and without 4-bit KV. If activations stay FP16, they are larger
// than K and V of 4 bits, and recomputing does not pay.
func TestPricedDecoding(t *testing.T) {
	const layers, hidden = 40, 5120
	base := decoding(t, "flexgen:batches=2", 16, 512, 4)
	position := 16. * 2 * hidden * 2 * layers
	near(t, "bytes", base.H2D, position*514)
	near(t, "host", base.Memory.Host, position*515)
	near(t, "buffers", base.Memory.Cache, 2*position*515/layers/2)
	packed := decoding(t, "flexgen:batches=2,kv=int4", 16, 512, 4)
	near(t, "packed bytes", packed.H2D, 0.28125*base.H2D)
	near(t, "packed host", packed.Memory.Host, 0.28125*base.Memory.Host)
	near(t, "packed back", packed.D2H, 0.28125*base.D2H)
	if packed.Tokens < 3*base.Tokens {
		t.Errorf("4-bit KV gives %g tokens/s, FP16 %g", packed.Tokens, base.Tokens)
	}
	if r := decoding(t, "kvpr", 16, 512, 4); r.Recomputed == 0 || math.Abs(r.H2D-position*(514-r.Recomputed/2)) > 1e-9*r.H2D || base.Recomputed != 0 {
		t.Errorf("%g positions are recomputed and %g B move, flexgen recomputes %g", r.Recomputed, r.H2D, base.Recomputed)
	}
	// Host memory holds activations for the largest number of positions that any step recomputes.
	r := decoding(t, "kvpr", 16, 512, 4)
	if kept := (r.Memory.Host - base.Memory.Host) / (16 * hidden * 2 * layers); kept < r.Recomputed || kept > r.Recomputed+2 {
		t.Errorf("activations of %g positions are in host memory, %g are recomputed", kept, r.Recomputed)
	}
	kvpr := func(options string) *Result {
		return decoding(t, "kvpr:order=column,batches=2"+options, 16, 512, 4)
	}
	near(t, "activations of FP16", kvpr(",kv=int4").H2D, packed.H2D)
	both := kvpr(",kv=int4,x=int4")
	if both.H2D >= packed.H2D {
		t.Errorf("with activations of 4 bits %g B move, without recomputing %g", both.H2D, packed.H2D)
	}
	if plain := kvpr(""); plain.H2D >= base.H2D || both.Tokens <= plain.Tokens {
		t.Errorf("kvpr moves %g B, flexgen %g; %g tokens/s, with 4 bits %g", plain.H2D, base.H2D, plain.Tokens, both.Tokens)
	}
	weights := decoding(t, "flexgen:batches=2,weights=host", 16, 512, 4)
	_, m := parts(t, "a100-40", "opt-13b")
	// A layer of OPT has 12h² + 13h parameters, or 12h² + 9h without its norms, of 2 B each.
	const layer = 2. * (12*hidden*hidden + 9*hidden)
	near(t, "weights in host memory", weights.Memory.Host, base.Memory.Host+layers*layer)
	near(t, "weights of two layers and the embedding", weights.Memory.Weights, 2*layer+m.Bytes(m.EmbeddingParameters()))
	if math.Abs(weights.H2D-base.H2D-24*hidden*hidden*layers) > 1e-3*weights.H2D {
		t.Errorf("with weights %g B move, without %g", weights.H2D, base.H2D)
	}
}

// Activations move at the rate of the layer's KV, without launches. Relative to their bytes, those
// of a position take as long as its K and V. By hand for OPT-13B with 16 requests of 514 positions:
// 2 × 5120 × 2 B of K and V, 5120 × 2 B of activations.
func TestActivationsRate(t *testing.T) {
	machine, m := parts(t, "h100", "opt-13b")
	p, scaling, err := Decoding(512, 4, false, m)
	fatal.If(t, err)
	r, err := newRunner(t.Context(), p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "kvpr:order=column,batches=1"), Batch: 16, Threads: 1, Path: "kernel"})
	fatal.If(t, err)
	s, _, _ := slowStep(t, r, 1)
	d := &s.Whole[0].Dense
	if d.Positions != 514 || d.KV.Fixed <= 0 {
		t.Fatalf("%d positions, %g s of launches", d.Positions, d.KV.Fixed)
	}
	near(t, "activations of a position", d.Activations*514, (d.KV.Seconds-d.KV.Fixed)/2)
	near(t, "load of the link", s.Whole[0].Loads.Layer, 16*514*4*5120/d.KV.Seconds/float64(machine.Link.Duplex.Kernel.Value))
	// Activations of 4 bits are made FP16 before they are multiplied.
	quantised, err := newRunner(t.Context(), p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "kvpr:order=column,batches=1,x=int4"), Batch: 16, Threads: 1, Path: "kernel"})
	fatal.If(t, err)
	q, _, _ := slowStep(t, quantised, 1)
	near(t, "a position's arithmetic, µs", 1e6*(q.Whole[0].Dense.Recompute-d.Recompute), 1e6*r.operators.Touch(16*5120*schedule.Quantization{Group: 64}.Dequantized()))
}

// Every GPU of a machine has its own batch, and the host keeps its KV and activations. The number
// of positions is the largest that any step recomputes, with 5120 × 2 B each in 40 layers.
func TestActivationsInHostMemory(t *testing.T) {
	for name, gpus := range map[string]float64{"a100-40": 1, "h100": 4} {
		machine, m := parts(t, name, "opt-13b")
		p, scaling, err := Decoding(512, 4, false, m)
		fatal.If(t, err)
		host := func(text string) (float64, *runner) {
			r, err := newRunner(t.Context(), p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, text), Batch: 16, Threads: 1})
			fatal.If(t, err)
			result, err := r.run()
			fatal.If(t, err)
			return result.Memory.Host, r
		}
		none, _ := host("kvpr:recompute=off")
		some, r := host("kvpr")
		if r.recomputed == 0 || float64(machine.GPUs) != gpus {
			t.Fatalf("%s: %g positions are recomputed for %d GPUs", name, r.recomputed, machine.GPUs)
		}
		near(t, name, some-none, gpus*16*r.recomputed*5120*2*40)
	}
}

func TestDecodingRefuses(t *testing.T) {
	machine, m := parts(t, "a100-40", "opt-13b")
	if _, _, err := Decoding(128, 1, false, m); err == nil || !strings.Contains(err.Error(), "prefill generates the first token") {
		t.Errorf("one token: %v", err)
	}
	_, latent := parts(t, "a100-40", "deepseek-v2-lite")
	p, scaling, err := Decoding(128, 32, true, latent)
	fatal.If(t, err)
	if n := p.Requests[0].Steps[0]; len(n) != 31 || n[0].SeqLen != 160 || n[30].Prompt != 128 {
		t.Errorf("%d steps, the first of %d positions", len(n), n[0].SeqLen)
	}
	// OPT has positions for 2048 tokens.
	for generate, noted := range map[int]bool{48: false, 49: true} {
		_, scaling, err := Decoding(2000, generate, false, m)
		if err != nil || (len(scaling.Notes) == 1) != noted {
			t.Errorf("%d tokens after 2000: notes %q, %v", generate, scaling.Notes, err)
		}
	}
	o := Options{Machine: machine, Model: latent, Scaling: scaling, Schedule: scheduleOf(t, "flexgen:kv=int4"), Batch: 1}
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "quantises FP16 keys and values") {
		t.Errorf("quantised latents: %v", err)
	}
	for text, want := range map[string]string{"kvpr:load=fine": "needs weights=host", "kvpr:kv=int8": "none of fp16, int4", "flexgen:x=int4": "unknown option"} {
		if _, err := schedule.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// kvprSteps prices some steps of a described batch with every order, load and quantisation of KVPR.
// It calls check with each step.
func kvprSteps(t *testing.T, machines, models []string, batches, prompts []int, check func(what string, k *schedule.KVPR, s *schedule.Step)) {
	t.Helper()
	const generate, groups = 9, 3
	if testing.Short() {
		machines, batches = machines[:1], batches[:1]
	}
	for _, machineName := range machines {
		for _, modelName := range models {
			machine, m := parts(t, machineName, modelName)
			for _, text := range []string{"order=row", "order=row,weights=host", "order=row,weights=host,load=coarse", "order=row,weights=host,load=fine",
				"order=column", "order=column,weights=host", "order=column,weights=host,load=coarse", "order=column,weights=host,load=fine",
				"order=column,batches=3", "order=column,batches=3,weights=host", "order=column,batches=3,weights=host,load=coarse", "order=column,batches=3,weights=host,load=fine"} {
				for _, numbers := range []string{"", ",kv=int4", ",x=int4", ",kv=int4,x=int4"} {
					for _, batch := range batches {
						for _, prompt := range prompts {
							for _, path := range []string{"fastest", "kernel"} {
								p, scaling, err := Decoding(prompt, generate, false, m)
								fatal.If(t, err)
								o := Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "kvpr:"+text+numbers), Batch: batch, Threads: 1, Path: path}
								r, err := newRunner(t.Context(), p, o)
								fatal.If(t, err)
								step := (batch + prompt) % (generate - 1)
								fatal.If(t, r.priceStep(step))
								what := fmt.Sprintf("%s, %s, %s%s, batch %d, prompt %d, step %d, path %s", machineName, modelName, text, numbers, batch, prompt, step, path)
								check(what, r.Schedule.(*schedule.KVPR), &r.step)
							}
						}
					}
				}
			}
		}
	}
}

// If requests have different lengths, recomputing is still never slower than moving all KV.
func TestUnequalRequestsAreNeverSlower(t *testing.T) {
	sample := read(t, realProfile(t))
	for _, text := range []string{"kvpr", "kvpr:order=column,batches=2,weights=host", "kvpr:order=column,batches=3,kv=int4,x=int4"} {
		for _, batch := range []int{3, 7} {
			o := options(t, sample, text)
			o.Batch = batch
			r, err := newRunner(t.Context(), sample, o)
			fatal.If(t, err)
			for step := range r.batch.Steps {
				fatal.If(t, r.priceStep(step))
				k := r.Schedule.(*schedule.KVPR)
				if got, none := takes(k, &r.step, *r.step.Split), takes(k, &r.step, 0); got > none {
					t.Fatalf("%s, batch %d, step %d: split %d takes %g s, without recomputing %g s", text, batch, step, *r.step.Split, got, none)
				}
			}
		}
	}
}

// takes returns the step's time with n positions recomputed.
func takes(k *schedule.KVPR, s *schedule.Step, n int) float64 {
	t, step := schedule.NewTimeline(), *s
	step.Split = &n
	k.Place(t, &step)
	t.Contend(&step)
	return t.End()
}

// The chosen split is at least as fast as every other one, for every order, load, quantisation and
// path.
func TestSplitIsTheFastest(t *testing.T) {
	positive, steps := 0, 0
	kvprSteps(t, []string{"a100-40", "gh200"}, []string{"opt-6.7b", "llama-3.1-8b"}, []int{3, 32}, []int{1, 2, 17, 48}, func(what string, k *schedule.KVPR, s *schedule.Step) {
		best, least := 0, takes(k, s, 0)
		for n := 1; n <= min(s.Whole[0].Dense.Prompt, s.Whole[0].Dense.Positions); n++ {
			if v := takes(k, s, n); v < least*(1-1e-9) {
				best, least = n, v
			}
		}
		if got := takes(k, s, *s.Split); got > least*(1+1e-9) {
			t.Errorf("%s: split %d takes %g s, the fastest is %d with %g s", what, *s.Split, got, best, least)
		}
		if steps++; *s.Split > 0 {
			positive++
		}
	})
	if positive == 0 || positive == steps {
		t.Errorf("%d of %d steps recompute something, expected some", positive, steps)
	}
}

// With long prompts too, recomputing is never slower than moving all KV, and never slower than the
// paper's split.
func TestRecomputingIsNeverSlower(t *testing.T) {
	slower := 0
	kvprSteps(t, []string{"a100-40", "rtx5000"}, []string{"opt-6.7b", "opt-13b"}, []int{4, 32}, []int{512, 1500}, func(what string, k *schedule.KVPR, s *schedule.Step) {
		got, none := takes(k, s, *s.Split), takes(k, s, 0)
		paper := *k
		paper.Recompute = schedule.RecomputePaper
		published := takes(&paper, s, 0)
		if got > none || got > published*(1+1e-9) {
			t.Errorf("%s: split %d takes %g s, without recomputing %g s, with the paper's split %g s", what, *s.Split, got, none, published)
		}
		if published > none {
			slower++
		}
	})
	if slower == 0 {
		t.Error("the paper's split is never slower than none: the test shows nothing")
	}
}
