package pipeline

import (
	"math"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// All weights of a model but the embedding move in every step, and two layers stay on the GPU. KV does
// not move.
func TestHostWeightsPrices(t *testing.T) {
	p, o := parallelOptions(t, "opt-13b", 1)
	o.Schedule = scheduleOf(t, "host")
	all := priceParallel(t, p, o)
	o.Schedule = scheduleOf(t, "host:weights=host")
	got := priceParallel(t, p, o)
	embedding := o.Model.Bytes(o.Model.EmbeddingParameters())
	streamed := o.Model.GPUBytes(1) - embedding
	near(t, "moved", got.H2D-all.H2D, streamed)
	near(t, "weights on the GPU", got.Memory.Weights, 2*streamed/40+embedding)
	near(t, "host", got.Memory.Host-all.Memory.Host, streamed*float64(o.Machine.GPUs))
	if got.Causes[schedule.Weights] == 0 || got.Mean < streamed/64e9 { // of PCIe 5
		t.Errorf("%d bytes of weights take %g s of a step of %g s", int(streamed), got.Causes[schedule.Weights], got.Mean)
	}
}

// Llama 2 70B on an H100 whose host has 246 GB/s and 7.17 TFLOP/s for 4 GPUs, by hand. 16 requests have
// 1025 to 1027 cached tokens of 4096 B in 80 layers. Arithmetic is 2 × 64 heads × 256 a token, 8 FLOP a
// byte, at 0.8 of the peak: 1.43 TFLOP/s are less than 8 × 61.5 GB/s. The queries of 16 tokens have
// 64 × 128 numbers of 2 B.
func TestHostPrices(t *testing.T) {
	p, o := parallelOptions(t, "llama-2-70b", 1)
	o.Schedule = scheduleOf(t, "host")
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
// move. More GPUs on a host take longer.
func TestHostOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "host:attend=demand")
	demand := priced(t, p, o)
	o.Schedule = scheduleOf(t, "host:attend=missed")
	missed := priced(t, p, o)
	o.Schedule = scheduleOf(t, "sequential")
	fetched := priced(t, p, o)
	if !(missed.Causes[schedule.OnHost] < demand.Causes[schedule.OnHost] && missed.H2D > fetched.H2D && demand.H2D < fetched.H2D) {
		t.Errorf("on the CPU %g s of the demand, %g s of the misses; %g, %g and %g B to the GPU", demand.Causes[schedule.OnHost],
			missed.Causes[schedule.OnHost], demand.H2D, missed.H2D, fetched.H2D)
	}
	if demand.Memory.Cache != 0 || missed.Memory.Cache != fetched.Memory.Cache {
		t.Errorf("caches of %g, %g and %g B", demand.Memory.Cache, missed.Memory.Cache, fetched.Memory.Cache)
	}
	machine := *o.Machine
	machine.GPUs *= 2
	o.Machine, o.Schedule = &machine, scheduleOf(t, "host:attend=demand")
	if more := priced(t, p, o).Causes[schedule.OnHost]; !(more > demand.Causes[schedule.OnHost]) || math.IsInf(more, 0) {
		t.Errorf("%g s with twice the GPUs, %g s before", more, demand.Causes[schedule.OnHost])
	}
}
