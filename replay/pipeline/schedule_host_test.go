package pipeline

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// By hand, a layer: 1 of projections, 1 of selection, 1 before and 2 after the attention, 0.5 each way,
// 6 on the CPU. The GPU takes 2 for half of the attention, if the CPU takes the missed half.
func TestHostByHand(t *testing.T) {
	l := Layer{Project: 1, Select: 1, Pre: 1, Post: 2, Attend: 4, Missed: 0.5}
	l.Host = HostAttention{Send: 0.5, Attend: 6, Return: 0.5}
	near(t, "all", place(t, schedule(t, "host"), layers(l, 3)).End(), 3*11)
	near(t, "demand", place(t, schedule(t, "host:attend=demand"), layers(l, 3)).End(), 3*12)
	near(t, "missed", place(t, schedule(t, "host:attend=missed"), layers(l, 3)).End(), 3*12)
	slow := l
	slow.Attend = 20 // the GPU's half takes 10, the CPU's way 7
	near(t, "missed, slow GPU", place(t, schedule(t, "host:attend=missed"), layers(slow, 3)).End(), 3*15)
	// Fetches of 3 run while the GPU finishes a layer and begins the next one. The last one ends 1 later.
	slow.Fetch.Seconds = 3
	near(t, "missed, with fetches", place(t, schedule(t, "host:attend=missed"), layers(slow, 3)).End(), 3*15)
	x := place(t, schedule(t, "host"), layers(l, 3)).Exposure()
	near(t, "exposed", x[OnHost], 3*7)
}

// By hand, layers of 11 as above, with weights of 12 on the host. The first weights take 12. Those of a next
// layer begin with the layer, and the outputs of the CPU follow them: 12, then 0.5 back and 2 after it. The
// last layer takes 11. Weights of 8 hide behind the 8.5 before the outputs.
func TestHostWeights(t *testing.T) {
	l := Layer{Project: 1, Pre: 1, Post: 2, Host: HostAttention{Send: 0.5, Attend: 6, Return: 0.5}}
	l.Dense.Weights = 12
	h := schedule(t, "host:weights=host")
	near(t, "long", place(t, h, layers(l, 3)).End(), 12+2*(12+0.5+2)+11)
	l.Dense.Weights = 8
	near(t, "hidden", place(t, h, layers(l, 3)).End(), 8+3*11)
	near(t, "on the GPU", place(t, schedule(t, "host"), layers(l, 3)).End(), 3*11)
	if name := schedule(t, "host:weights=gpu").Name(); name != "host:attend=all,halves=no" {
		t.Errorf("weights on the GPU: %s", name)
	}
	if _, err := ParseSchedule("host:attend=missed,weights=host"); err == nil || !strings.Contains(err.Error(), "keeps a cache on the GPU") {
		t.Errorf("weights on the host with a cache: %v", err)
	}
}

// All weights of a model but the embedding move in every step, and two layers stay on the GPU. KV does
// not move.
func TestHostWeightsPrices(t *testing.T) {
	p, o := parallelOptions(t, "opt-13b", 1)
	o.Schedule = schedule(t, "host")
	all := priceParallel(t, p, o)
	o.Schedule = schedule(t, "host:weights=host")
	got := priceParallel(t, p, o)
	embedding := o.Model.Bytes(o.Model.EmbeddingParameters())
	streamed := GPUWeights(o.Model, 1) - embedding
	near(t, "moved", got.H2D-all.H2D, streamed)
	near(t, "weights on the GPU", got.Memory.Weights, 2*streamed/40+embedding)
	near(t, "host", got.Memory.Host-all.Memory.Host, streamed*float64(o.Machine.GPUs))
	if got.Causes.Weights == 0 || got.Mean < streamed/64e9 { // of PCIe 5
		t.Errorf("%d bytes of weights take %g s of a step of %g s", int(streamed), got.Causes.Weights, got.Mean)
	}
}

// By hand: the SMs have 4 for a layer of a half, the CPU and its ways 4. So one hides the other, except
// at the ends: the first projections of 2, and the last way.
func TestHostHalves(t *testing.T) {
	l := Layer{Project: 1, Pre: 1, Post: 2, Host: HostAttention{Send: 0.5, Attend: 3, Return: 0.5}}
	tl := place(t, schedule(t, "host:halves=yes"), halved(l, 20))
	if end := tl.End(); end < busy(tl, SMs) || end > busy(tl, SMs)+8 {
		t.Errorf("20 layers take %g, the SMs work for %g", end, busy(tl, SMs))
	}
	whole := l
	whole.Host.Attend, whole.Post, whole.Project, whole.Pre = 6, 4, 2, 2
	if one := place(t, schedule(t, "host"), layers(whole, 20)).End(); one < 1.7*tl.End() {
		t.Errorf("halves take %g, the whole batch %g", tl.End(), one)
	}
}

// Closed forms equal the timeline. Halves take at least the work of each resource and each half alone.
func TestHostClosed(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for range 300 {
		s := random(r, 1+r.IntN(9))
		for i := range s.Whole {
			s.Whole[i].Host = HostAttention{r.Float64(), 3 * r.Float64(), r.Float64()}
			s.Whole[i].Fetch = Transfer{}
		}
		for _, name := range []string{"host", "host:attend=demand", "host:attend=missed", "host:weights=host", "host:attend=demand,weights=host"} {
			c := schedule(t, name).(Closed)
			near(t, name, place(t, c, s).End(), c.Closed(s))
			h := schedule(t, strings.Replace(c.Name(), "halves=no", "halves=yes", 1))
			s.Parts = [][]Layer{s.Whole, s.Whole}
			tl := place(t, h, s)
			s.Parts = nil
			least := c.Closed(s)
			for resource := range resources {
				least = max(least, busy(tl, resource))
			}
			if tl.End() < least-1e-9 || tl.End() > 2*c.Closed(s)+1e-9 {
				t.Errorf("%s takes %g, expected %g to %g", h.Name(), tl.End(), least, 2*c.Closed(s))
			}
		}
	}
}

// Llama 2 70B on an H100 whose host has 246 GB/s and 7.17 TFLOP/s for 4 GPUs, by hand. 16 requests have
// 1025 to 1027 cached tokens of 4096 B in 80 layers. Arithmetic is 2 × 64 heads × 256 a token, 8 FLOP a
// byte, at 0.8 of the peak: 1.43 TFLOP/s are less than 8 × 61.5 GB/s. The queries of 16 tokens have
// 64 × 128 numbers of 2 B.
func TestHostPrices(t *testing.T) {
	p, o := parallelOptions(t, "llama-2-70b", 1)
	o.Schedule = schedule(t, "host")
	r, err := newRunner(t.Context(), p, o)
	fatal.If(t, err)
	fatal.If(t, r.priceStep(0))
	tokens := float64(16 * p.Requests[0].Steps[0][0].SeqLen)
	near(t, "attention", r.step.Whole[0].Host.Attend, tokens*4096/(246e9/4))
	near(t, "output numbers", func() float64 { _, n := hostNumbers(o.Model); return n }(), 64*128)
	o.Machine.Host.FP32.Value = 1e12
	fatal.If(t, r.priceStep(0))
	near(t, "arithmetic", r.step.Whole[0].Host.Attend, tokens*2*64*256/(0.8e12/4))

	got := priceParallel(t, p, o)
	if got.Memory.Cache != 0 || got.Memory.Host < 4*16*1024*4096*80 || got.H2D != 80*16*64*128*2 {
		t.Errorf("cache %g B, host %g B, %g B to the GPU", got.Memory.Cache, got.Memory.Host, got.H2D)
	}
	const note = "the CPU attends to the whole context, at 1/4 of 246 GB/s"
	if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, note) {
		t.Errorf("notes: %s", notes)
	}
	o.Machine.Host.FP32.Written = ""
	if notes := strings.Join(priceParallel(t, p, o).Notes, "\n"); !strings.Contains(notes, "states no fp32") {
		t.Errorf("notes: %s", notes)
	}
}

// On real misses: the CPU attends to the missed part of what it attends to alone, and the misses still
// move. More GPUs on a host take longer. Plans have finite figures.
func TestHostOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "host:attend=demand")
	demand := priced(t, p, o)
	o.Schedule = schedule(t, "host:attend=missed")
	missed := priced(t, p, o)
	o.Schedule = schedule(t, "sequential")
	fetched := priced(t, p, o)
	if !(missed.Causes.OnHost < demand.Causes.OnHost && missed.H2D > fetched.H2D && demand.H2D < fetched.H2D) {
		t.Errorf("on the CPU %g s of the demand, %g s of the misses; %g, %g and %g B to the GPU", demand.Causes.OnHost,
			missed.Causes.OnHost, demand.H2D, missed.H2D, fetched.H2D)
	}
	if demand.Memory.Cache != 0 || missed.Memory.Cache != fetched.Memory.Cache {
		t.Errorf("caches of %g, %g and %g B", demand.Memory.Cache, missed.Memory.Cache, fetched.Memory.Cache)
	}
	plan := PlanOptions{Options: o, MaxBatch: 4, LayerMap: "nearest"}
	for _, name := range []string{"host", "host:attend=demand", "host:attend=missed,halves=yes"} {
		plan.Schedules = append(plan.Schedules, schedule(t, name))
	}
	found, err := Plan(t.Context(), []*Profile{p}, plan)
	fatal.If(t, err)
	if _, err := json.Marshal(found.Candidates); err != nil || len(found.Candidates) != 3 {
		t.Errorf("%d candidates, %v", len(found.Candidates), err)
	}
	machine := *o.Machine
	machine.GPUs *= 2
	o.Machine, o.Schedule = &machine, schedule(t, "host:attend=demand")
	if more := priced(t, p, o).Causes.OnHost; !(more > demand.Causes.OnHost) || math.IsInf(more, 0) {
		t.Errorf("%g s with twice the GPUs, %g s before", more, demand.Causes.OnHost)
	}
}
