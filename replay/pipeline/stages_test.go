package pipeline

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Llama 3.1 8B on 4 GPUs: each has a quarter of the layers and of the KV, and all embeddings. A send of 4
// requests has 4 × 4096 numbers of 2 B at 50 GB/s after 11 us.
func TestPipelineParallel(t *testing.T) {
	p, o := parallelOptions(t, "llama-3.1-8b", 1)
	one := priceParallel(t, p, o)
	o.PipelineParallel = 4
	four := priceParallel(t, p, o)
	embedding := o.Model.Bytes(o.Model.EmbeddingParameters())
	near(t, "weights", four.Memory.Weights/1e9, (embedding+(one.Memory.Weights-embedding)/4)/1e9)
	near(t, "cache", four.Memory.Cache/1e9, one.Memory.Cache/4e9)
	near(t, "tokens/s", four.Tokens, 16/four.TPOT/4)
	send := 11e-6 + 4*4096*2/50e9
	if four.Causes[schedule.Staging] < 4*send-1e-12 || four.Causes[schedule.Compute] > one.Causes[schedule.Compute] || four.PipelineParallel != 4 {
		t.Errorf("4 GPUs: %g s of sends and waits, expected at least %g; %g s of computation, one GPU %g",
			four.Causes[schedule.Staging], 4*send, four.Causes[schedule.Compute], one.Causes[schedule.Compute])
	}
	if one.PipelineParallel != 1 || one.Causes[schedule.Staging] != 0 || four.Schedule != "dense" {
		t.Errorf("one GPU has %d stages and waits for %g s; 4 GPUs run %s", one.PipelineParallel, one.Causes[schedule.Staging], four.Schedule)
	}
}

// Numbers of stages that cannot be priced are errors that say why.
func TestPipelineParallelRefused(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"schedule gpu runs on one GPU":        func(o *Options) { o.Schedule = schedule.OnGPU{} },
		"does not combine with":               func(o *Options) { o.TensorParallel = 2 },
		"has routed experts":                  func(o *Options) { o.Model = routedModel(t) },
		"has 3 layers":                        func(o *Options) { m := *o.Model; m.Layers.Value = 3; o.Model = &m },
		"a batch of 3 has too few requests":   func(o *Options) { o.Batch = 3 },
		"needs a network between":             func(o *Options) { o.Network = nil },
		"pipeline-parallel GPUs 9, expected ": func(o *Options) { o.PipelineParallel = 9 },
	} {
		p, o := parallelOptions(t, "llama-3.1-8b", 1)
		o.PipelineParallel = 4
		change(&o)
		if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}
