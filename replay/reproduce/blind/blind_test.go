package blind

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// figures are worked by hand for steps of 10 ms.
func TestMeasure(t *testing.T) {
	m := &hardware.Model{}
	m.Entry.Value, m.Layers.Value = 4096, 32
	r := &pipeline.Result{Mean: 0.01, Tokens: 55}
	r.Memory.GPUHas, r.Memory.Weights, r.Memory.Reserve = 20<<20, 16<<20, 1<<20
	for want, row := range map[float64]reproduce.Row{
		800:  {"batch": 8, "generate": 100},                // 8 × 100 tokens in 100 steps
		400:  {"batch": 8, "generate": 101, "first": 1.02}, // 8 × 101 tokens in 1.02 s + 100 steps
		1000: {"batch": 8, "generate": 100, "measure": "latency"},
		24:   {"batch": 8, "generate": 100, "measure": "room"}, // 3 MiB ÷ 128 KiB
		55:   {"batch": 8, "budget": 1024},
	} {
		if have := measure(row, m, r); math.Abs(have-want) > 1e-9 {
			t.Errorf("%v: %g, expected %g", row, have, want)
		}
	}
}

// A step of ShadowKV selects 1024 tokens of each head in 128 chunks. 51 of them miss.
func TestSelected(t *testing.T) {
	m := &hardware.Model{}
	m.KVHeads.Value, m.Layers.Value, m.HeadDim.Value, m.Entry.Value, m.Context.Value = 4, 2, 128, 2048, 1<<20
	p, _ := selected(reproduce.Row{"budget": 1024, "prompt": 61440}, m)
	have := p.Requests[0].Steps[0][0]
	want := pipeline.Counts{Demand: 512, Misses: 204, Runs: 204, Moved: 1632, Resident: 512,
		Positions: 1, SeqLen: 61440, Prompt: 61440}
	if have != want || p.Meta.TopK != 128 || p.Meta.BlockTokens != 8 || p.Meta.Local != 32 || p.Meta.OutlierBlocks != 48 {
		t.Errorf("%+v of %+v, expected %+v", have, p.Meta, want)
	}
}

// The summary has the median, the largest, and the number beyond 40 %.
func TestErrors(t *testing.T) {
	line := func(e float64) map[string]*reproduce.Line {
		return map[string]*reproduce.Line{fitted: {Error: reproduce.Number(e)}}
	}
	list := []result{}
	for _, e := range []float64{-0.5, math.NaN(), 0.1, 0.2, -0.4} {
		list = append(list, result{lines: line(e)})
	}
	if have := of(list, fitted).cells(); !slices.Equal(have, []string{"30.0 %", "50.0 %", "1"}) {
		t.Errorf("%v, expected 30.0 %%, 50.0 %%, 1", have)
	}
}

// Every section states an address, every error beyond 40 % has a reason, and none of the lines is
// fitted.
func TestSections(t *testing.T) {
	r, err := reproduce.Make(context.Background(), []reproduce.Paper{Paper()}, reproduce.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	if past := r.Past(); len(past) > 0 {
		t.Errorf("without a reason: %v", past)
	}
	for _, s := range r.Papers[0].Sections {
		follows := strings.HasPrefix(s.Method, "The same ") || strings.Contains(s.Method, "of the same ")
		if !follows && !strings.Contains(s.Method, "https://") {
			t.Errorf("section %s states no address", s.Name)
		}
		for _, l := range s.Lines {
			if l.Kind == reproduce.Fitted || float64(l.Relative) > beyond {
				t.Errorf("%s: %s is %s with a gate of %s", s.Name, l.Item, l.Kind, l.Relative)
			}
			if math.Abs(float64(l.Error)) > beyond && l.Note == "" {
				t.Errorf("%s: %s has no reason", s.Name, l.Item)
			}
		}
	}
}
