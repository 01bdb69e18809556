package pipeline

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// decodeStep returns the mean step of Llama 3.1 8B with an engine.
func decodeStep(t *testing.T, engine string, kernels kernel.Source) *Result {
	t.Helper()
	e, err := ParseEngine(engine)
	fatal.If(t, err)
	machine, m := parts(t, "h100", "llama-3.1-8b")
	p, scaling, err := Decoding(1024, 2, false, m)
	fatal.If(t, err)
	return priced(t, p, Options{Machine: machine, Model: m, Scaling: scaling, Schedule: schedule(t, "dense"), Batch: 4,
		Engine: e, Kernels: kernels})
}

// A layer has 9 kernels: two norms, four products, rotary embedding, attention and activation. The
// step ends with a norm, the logits and the sampler.
func TestEngineGaps(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	fitted := kernel.Fitted(lib)
	none := decodeStep(t, "none", fitted)
	near(t, "gaps", decodeStep(t, "graphs", fitted).Mean-none.Mean, 0.5e-6*(32*9+3))
	near(t, "step", decodeStep(t, "transformers", fitted).Mean-decodeStep(t, "graphs", fitted).Mean, 0.24*300.6/8192)
	if strings.Contains(strings.Join(none.Notes, "\n"), "engine") {
		t.Errorf("notes of no engine: %v", none.Notes)
	}
	// The roofline has no kernels, so gaps do not count and no note names them.
	if graphs, none := decodeStep(t, "graphs", nil), decodeStep(t, "none", nil); graphs.Mean != none.Mean || strings.Contains(strings.Join(graphs.Notes, "\n"), "engine") {
		t.Errorf("%g s with gaps, %g s without, notes %v", graphs.Mean, none.Mean, graphs.Notes)
	}
}

// The CPU takes 1.23 ms for each of 32 layers, which is longer than a layer's computation. The
// logits come after them.
func TestEngineLayers(t *testing.T) {
	none, slow := decodeStep(t, "none", nil), decodeStep(t, "pytorch", nil)
	machine, m := parts(t, "h100", "llama-3.1-8b")
	logits, err := NewRoofline(machine, m, Selection{}, 1, 1).Output(4)
	fatal.If(t, err)
	near(t, "step", slow.Mean, 1/25.5+logits)
	if none.Mean >= slow.Mean || !strings.Contains(strings.Join(slow.Notes, "\n"), "engine pytorch: at least 1.23 ms a layer") {
		t.Errorf("%g s, %v", none.Mean, slow.Notes)
	}
}

func TestParseEngine(t *testing.T) {
	if e, err := ParseEngine(DefaultEngine); err != nil || e.Name != "graphs" {
		t.Errorf("%v, %v", e, err)
	}
	if _, err := ParseEngine("graph"); err == nil || !strings.Contains(err.Error(), "did you mean graphs") {
		t.Errorf("%v", err)
	}
}
