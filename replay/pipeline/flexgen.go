package pipeline

import "github.com/kvreplay/kvreplay/policies"

// FlexGen keeps all KV on the host and moves each layer's every step, a layer ahead, into
// one of two buffers; attention reads all of it, there is no selection. With weights on
// the host they move before it, once for all batches that pass the layer (Sheng et al.,
// FlexGen, ICML 2023; KVPR, section 2). It is KVPR column by column with nothing
// recomputed:
//
//	layer = w + batches·S·y
type FlexGen struct{ KVPR }

func parseFlexGen(options string) (Schedule, error) {
	where := "gpu"
	f := &FlexGen{KVPR{Column: true, Batches: 1, Recompute: RecomputeNone}}
	var q quantizations
	bits := q.options()
	text, err := policies.ParseOptions(options, policies.Int("batches", &f.Batches, 1, 1<<20), policies.Word("weights", &where, "gpu", "host"), bits[0], bits[2])
	f.Weights, f.KV, f.text = where == "host", q.of(q.kv), text
	return f, err
}

// Name is its text form.
func (f *FlexGen) Name() string { return named("flexgen", f.text) }
