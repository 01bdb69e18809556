package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// partial returns a step whose layers all have the same times.
func partial(n int, again, swap, decode float64) *Step {
	return layers(Layer{Post: decode, Dense: Dense{Again: again, Uncached: Transfer{Seconds: swap}}}, n)
}

// Worked by hand: 4 layers in groups of one that is run again (3) and one that is swapped (2). Each
// decodes in 1. The SMs run 3 again, 3 again, layer 0 until 7, layer 1 until 8, then end at 9 and
// 10. The link brings layer 1 by 2 and layer 3 by 4.
func TestELLMByHand(t *testing.T) {
	one := &ELLM{Uncached: 0.5, Swap: 1, Recompute: 1}
	near(t, "computation binds", place(t, one, partial(4, 3, 2, 1)).End(), 10)
	// Swaps of 10: the link ends at 10 and 20. Layer 1 decodes by 11 and layer 3 by 21.
	near(t, "the link binds", place(t, one, partial(4, 3, 10, 1)).End(), 21)
	// A third group's buffer is free when the first has decoded, at 11. Its swap ends at 30.
	near(t, "three groups", place(t, one, partial(6, 3, 10, 1)).End(), 31)
	// Decoding of 1 + 1 hides 2 of the 3 of the next group.
	fused := &ELLM{Uncached: 0.5, Swap: 1, Recompute: 1, Fused: true}
	near(t, "fused", place(t, fused, partial(4, 3, 2, 1)).End(), 3+2+1+2)
	all := &ELLM{Uncached: 0.5, Recompute: 1}
	near(t, "all run again", place(t, all, partial(5, 3, 99, 1)).End(), 5*4)
	none := &ELLM{Uncached: 0.5, Swap: 1}
	near(t, "all swapped", place(t, none, partial(5, 99, 3, 1)).End(), 5*3+1)
}

// Timeline and closed form are equal on any step.
func TestELLMClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for range 500 {
		s := random(r, 1+r.IntN(12))
		for i := range s.Whole {
			s.Whole[i].Dense.Again, s.Whole[i].Dense.Uncached = 3*r.Float64(), Transfer{Seconds: 3 * r.Float64()}
		}
		for swap := range mostSwapped + 1 {
			for recompute := range mostRecomputed + 1 {
				for _, fused := range []bool{false, true} {
					if swap+recompute > 0 {
						e := &ELLM{Uncached: 0.3, Swap: swap, Recompute: recompute, Fused: fused}
						near(t, e.Name(), place(t, e, s).End(), e.Closed(s))
					}
				}
			}
		}
	}
}

// eLLM's six configurations at batch 8 with 895 tokens, of which 36 % are uncached, for Llama-2-13B
// on an A100 over 25 GB/s. Running a layer again takes 5.25 ms by Eq. 7, with a layer's cost for a
// layer. Swapping one takes 2.11 ms.
func TestELLMChoosesLeastIdle(t *testing.T) {
	const b, s, r, h, flops = 8, 895, 0.36, 5120, 312e12
	l := Layer{Dense: Dense{Again: b * (24*h*h*s*r + 4*h*s*s*r*r) / flops, Uncached: Transfer{Seconds: 4 * h * b * s * r / 25e9}}}
	for _, c := range []struct {
		swap, recompute int
		ms              float64
	}{{2, 1, 1.03}, {3, 1, 1.08}, {1, 1, 3.14}, {3, 2, 4.17}, {2, 2, 6.28}, {1, 2, 8.39}} {
		if got := l.Idle(c.swap, c.recompute) * 1e3; math.Abs(got-c.ms) > 0.006 {
			t.Errorf("%d swapped, %d run again: %.3f ms idle, expected %.2f", c.swap, c.recompute, got, c.ms)
		}
	}
	if swap, recompute := leastIdle(&l); swap != 2 || recompute != 1 {
		t.Errorf("%d swapped, %d run again are chosen, expected 2 and 1", swap, recompute)
	}
}

// The fastest of the six groups is chosen, each with the share that the memory leaves it. So a
// faster GPU makes no step slower. The choice by idle time need not be the fastest.
func TestELLMChoosesTheFastest(t *testing.T) {
	for _, c := range []struct {
		machine  string
		batch    int
		uncached string
		idle     bool // the group with the least idle time is slower
	}{{"h100", 8, "0.3", true}, {"a100-80", 8, "0.3", false}, {"a100-80", 8, "0.05", false}, {"a100-80", 33, "auto", false}} {
		p, o := decodes(t, 3000, c.batch, "ellm")
		from, _ := parts(t, c.machine, "llama-2-13b")
		own, host := *from, *from.Host
		host.Memory = o.Machine.Host.Memory
		own.Host, o.Machine = &host, &own
		run := func(group string) *Result {
			o.Schedule = schedule(t, fmt.Sprintf("ellm:uncached=%s,%s", c.uncached, group))
			return priced(t, p, o)
		}
		chosen, least := run("choose=time"), math.Inf(1)
		for swap, recompute := range configurations {
			if r := run(fmt.Sprintf("swap=%d,recompute=%d", swap, recompute)); r.Fits() {
				least = min(least, r.Mean)
			}
		}
		idlest := run("choose=idle")
		if c.uncached != "auto" { // with one share for all groups, the group with the least idle time of the first layer
			r, err := newRunner(t.Context(), p, o)
			fatal.If(t, err)
			fatal.If(t, r.priceStep(0))
			swap, recompute := leastIdle(&r.step.Whole[0])
			near(t, c.machine+", the idlest", idlest.Mean, run(fmt.Sprintf("swap=%d,recompute=%d", swap, recompute)).Mean)
		}
		if !chosen.Fits() || chosen.Mean != least || idlest.Mean < least || c.idle && idlest.Mean < 1.2*least {
			t.Errorf("%s, batch %d: %s takes %g s, fits: %t; the fastest of six takes %g, the idlest %g", c.machine, c.batch, chosen.Schedule, chosen.Mean, chosen.Fits(), least, idlest.Mean)
		}
	}
}

// decodes returns a profile of one request with the given tokens, priced on Llama-2-13B and an A100
// with 80 GB.
func decodes(t *testing.T, tokens int64, batch int, text string) (*Profile, Options) {
	t.Helper()
	machine, m := parts(t, "a100-80", "llama-2-13b")
	own := *machine.Host // the paper's 256 GB are too small for large batches
	own.Memory.Value = 2e12
	with := *machine
	with.Host = &own
	p := &Profile{Layers: []int32{0}, Heads: 1, Requests: []Request{{Steps: [][]Counts{{{Positions: 1, SeqLen: tokens, Prompt: tokens}}}}}}
	scaling, err := NewScaling(p, m, "nearest", 0)
	fatal.If(t, err)
	selection, err := ParseSelection("auto", m)
	fatal.If(t, err)
	return p, Options{Machine: &with, Model: m, Scaling: scaling, Selection: selection, Batch: batch, Schedule: schedule(t, text), Reserve: 0.1}
}

func TestELLMPriced(t *testing.T) {
	const tokens, kv = 1000, 20480 * 40 // bytes per token
	p, o := decodes(t, tokens, 8, "ellm:uncached=0.5,swap=2,recompute=1")
	half := priced(t, p, o)
	// Layers 1, 2, 4, 5, …, 37, 38 move: 26 of 40.
	near(t, "bytes over the link", half.H2D, 8*500*20480*26)
	near(t, "GPU's cache", half.Memory.Cache, 8*tokens*kv*(0.5+2*0.5*3/40))
	// Two groups never hold more than all layers, if a group has half of them.
	near(t, "two groups of few layers", (&ELLM{Uncached: 0.5, Swap: 3, Recompute: 2}).cached(6), 1)
	near(t, "host's part", half.Memory.Host, 8*tokens*kv*0.5*2/3*float64(o.Machine.GPUs))
	o.Schedule = schedule(t, "ellm:uncached=0")
	near(t, "nothing uncached moves", priced(t, p, o).H2D, 0)

	// 120 requests of 1000 tokens exceed 80 GB less a tenth and the weights.
	p, o = decodes(t, tokens, 120, "ellm")
	least := priced(t, p, o)
	s := schedule(t, least.Schedule).(*ELLM)
	if !least.Fits() || s.Uncached <= 0 || s.Swap < 1 || s.Recompute < 1 {
		t.Fatalf("%s: %s", s.Name(), least.Memory.Verdict)
	}
	found, err := Plan(t.Context(), []*Profile{p}, PlanOptions{Options: o, Schedules: []Schedule{schedule(t, "ellm")}, LayerMap: "nearest", MaxBatch: 120, SLO: 10})
	fatal.If(t, err)
	chosen := schedule(t, found.Candidates[0].Schedule).(*ELLM)
	near(t, "cached share of the plan", *found.Candidates[0].Ratio, 1-chosen.Uncached)
	less := *s
	less.Uncached -= 2 / uncachedSteps
	o.Schedule = &less
	if r := priced(t, p, o); r.Fits() || r.Mean > least.Mean {
		t.Errorf("%s fits, or takes longer than %s", less.Name(), s.Name())
	}
}

// The Roofline's arithmetic of a layer that is run again equals eLLM's Eq. 2 without the vocabulary
// and with causal attention. The shape has the paper's FFN of two 4h matrices.
func TestAgainIsEq2(t *testing.T) {
	machine, found := parts(t, "a100-80", "opt-13b")
	m := *found
	m.Bias = false
	r := NewRoofline(machine, &m, Selection{}, 1, 1)
	r.memory = math.Inf(1)
	const n, h = 700., 5120.
	o, err := r.Layer(0, &Load{Requests: 1, Again: n, Pairs: n * n / 2})
	fatal.If(t, err)
	near(t, "a layer run again", o.Again*r.matrix, 24*h*h*n+2*h*n*n)
}

func TestParseELLM(t *testing.T) {
	for text, want := range map[string]string{
		"ellm":                                  "ellm:uncached=auto,swap=auto,recompute=auto,choose=time,fused=no",
		"ellm:uncached=0.36,swap=2,recompute=1": "ellm:uncached=0.36,swap=2,recompute=1,fused=no",
		"ellm:uncached=0.5,swap=1,recompute=0":  "ellm:uncached=0.5,swap=1,recompute=0,fused=no",
		"ellm:uncached=0.5,swap=0,recompute=2":  "ellm:uncached=0.5,swap=0,recompute=2,fused=no",
		"ellm:fused=yes,uncached=auto":          "ellm:uncached=auto,swap=auto,recompute=auto,choose=time,fused=yes",
		"ellm:choose=idle,uncached=0.5":         "ellm:uncached=0.5,swap=auto,recompute=auto,choose=idle,fused=no",
	} {
		if got := schedule(t, text).Name(); got != want || schedule(t, got).Name() != got {
			t.Errorf("%s is %s, expected %s", text, got, want)
		}
	}
	for _, text := range []string{"ellm:swap=1", "ellm:swap=0,recompute=0", "ellm:uncached=2", "ellm:swap=4,recompute=1", "ellm:swap=2,recompute=1,choose=idle", "ellm:choose=best"} {
		if _, err := ParseSchedule(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
