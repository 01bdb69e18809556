package pipeline

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

func fittedOn(t *testing.T, machine, model string, experts int) (*Fitted, *Roofline) {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	m, err := lib.Machine(machine)
	fatal.If(t, err)
	shape, err := lib.Model(model)
	fatal.If(t, err)
	method := "keys"
	if shape.Indexer != nil {
		method = "indexer"
	}
	r := NewRoofline(m, shape, Selection{Method: method, Tokens: 1}, experts, 1)
	e, err := kernel.Estimate(m.GPU, lib)
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
			if have.Select != want.Select || have.LookupGPU != want.LookupGPU {
				t.Errorf("%s: selection or lookup differ from the roofline's", c.model)
			}
			if share := have.Recompute / want.Recompute; share < 0.9 || share > 1.6 { // of a large product
				t.Errorf("%s: recomputation takes %g of the roofline's time", c.model, share)
			}
		}
	}
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
		experts := kernel.NewExperts(2, 2*float64(e.Active.Value), c.chosen, hidden, wide, 3, float64(r.Model.BytesPerParameter.Value))
		want = f.products(2, []matrix{{all, hidden}}) + f.seconds(kernel.NewNorm(2, all, false)) + f.seconds(experts) + 5e-6
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
