package pipeline

import (
	"math"
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
			if share := have.Recompute / want.Recompute; share < 0.9 || share > 1.5 { // of a large product
				t.Errorf("%s: recomputation takes %g of the roofline's time", c.model, share)
			}
		}
	}
}

// A layer has kernels that route tokens, and norms inside of attention. By hand, for Qwen3 30B A3B and
// two tokens: 128 experts need two kernels to group the tokens, Mixtral's 8 experts one. DeepSeek-V3 adds
// the output of its shared expert, and norms latents of 512 and 1536.
func TestRoutingAndNorms(t *testing.T) {
	for model, c := range map[string]struct {
		align, shared float64
		norms         [][2]float64 // rows and widths, for two tokens
	}{
		"qwen3-30b-a3b": {2, 0, [][2]float64{{64, 128}, {8, 128}}}, "mixtral-8x7b": {1, 0, nil},
		"deepseek-v3": {2, 1, [][2]float64{{2, 512}, {2, 1536}}}, "llama-3.1-8b": {0, 0, nil},
	} {
		f, r := fittedOn(t, "a100-80", model, 1)
		want := 0.
		for _, n := range c.norms {
			want += f.seconds(kernel.NewNorm(n[0], n[1], false))
		}
		near(t, model+" norms", f.innerNorms(2), want)
		e := r.Model.MoE
		if e == nil {
			continue
		}
		hidden, active := float64(r.Model.Hidden.Value), float64(e.Active.Value)
		route := f.seconds(kernel.NewNorm(2, float64(e.Experts.Value), false)) + c.align*f.seconds(kernel.NewAdd(2, active)) +
			f.seconds(kernel.NewSum(2, active, hidden)) + c.shared*f.seconds(kernel.NewAdd(2, hidden))
		near(t, model+" routing", f.routing(2), route)
		if route < 3e-6 || route > 60e-6 {
			t.Errorf("%s routes two tokens in %g s, expected some launches", model, route)
		}
	}
	// 1024 pairs of Mixtral take two kernels.
	f, _ := fittedOn(t, "a100-80", "mixtral-8x7b", 1)
	one, two := f.routing(511)-f.seconds(kernel.NewAdd(511, 2)), f.routing(512)-2*f.seconds(kernel.NewAdd(512, 2))
	if math.Abs(one/two-1) > 0.1 {
		t.Errorf("routing of 511 tokens takes %g s, of 512 tokens %g s without the kernels that group them", one, two)
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
