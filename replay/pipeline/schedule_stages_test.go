package pipeline

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// stagedStep returns a step of some layers in n micro-batches of random sizes, up to the given share
// apart.
func stagedStep(r *rand.Rand, n, count int, apart float64) *Step {
	s := &Step{Whole: make([]Layer, count)}
	shape := make([]float64, count)
	for i := range shape {
		shape[i] = 0.5 + r.Float64()
	}
	send := r.Float64()
	for range n {
		size := 1 + apart*r.Float64()
		var part []Layer
		for i := range count {
			part = append(part, Layer{Project: shape[i] * size, Dense: Dense{Attend: size}})
		}
		s.Parts = append(s.Parts, part)
		s.Outputs, s.Sends = append(s.Outputs, size), append(s.Sends, send*size)
	}
	return s
}

// rounds runs the pipeline stage by stage, as its GPUs do, and returns the mean time of a late step.
func rounds(g *inStages, s *Step) float64 {
	const early, late = 40, 200
	free := make([]float64, g.stages)      // end of each stage's last work
	ready := make([]float64, len(s.Parts)) // when a micro-batch has its token
	begun := 0.
	for round := range late {
		if round == early {
			begun = free[g.stages-1]
		}
		for p := range s.Parts {
			for stage := range g.stages {
				free[stage] = max(free[stage], ready[p]) + g.takes(s, p, stage)
				ready[p] = free[stage] + s.Sends[p]
			}
		}
	}
	return (free[g.stages-1] - begun) / (late - early)
}

// A step takes the time of a pipeline that is run stage by stage, and the timeline has the same.
func TestStagedAgainstRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for range 200 {
		g := &inStages{OnGPU{Dense: true}, 2 + r.IntN(4)}
		equal := stagedStep(r, g.stages, g.stages+r.IntN(9), 0)
		near(t, "equal micro-batches", g.Closed(equal), rounds(g, equal))
		near(t, "timeline", place(t, g, equal).End(), g.Closed(equal))
		apart := stagedStep(r, g.stages, g.stages+r.IntN(9), 0.3)
		near(t, "timeline", place(t, g, apart).End(), g.Closed(apart))
		if slow, form := rounds(g, apart), g.Closed(apart); slow < form-1e-9 || slow > 1.1*form {
			t.Errorf("micro-batches of different sizes: %g in rounds, by the formula %g", slow, form)
		}
	}
}

// By hand: 4 layers of 1 in 2 stages of 2, an output of 1, sends of 0.25. A micro-batch passes in 5.5. The
// last stage works for 6, so the micro-batch waits for 0.5.
func TestStagedByHand(t *testing.T) {
	s := &Step{Whole: make([]Layer, 4), Outputs: []float64{1, 1}, Sends: []float64{0.25, 0.25}}
	for range 2 {
		s.Parts = append(s.Parts, layers(Layer{Post: 1}, 4).Whole)
	}
	tl := place(t, &inStages{OnGPU{Dense: true}, 2}, s)
	near(t, "step", tl.End(), 6)
	x := tl.Exposure()
	near(t, "sends and wait", x[Staging], 1)
}

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
	if four.Causes.Pipeline < 4*send-1e-12 || four.Causes.Compute > one.Causes.Compute || four.PipelineParallel != 4 {
		t.Errorf("4 GPUs: %g s of sends and waits, expected at least %g; %g s of computation, one GPU %g",
			four.Causes.Pipeline, 4*send, four.Causes.Compute, one.Causes.Compute)
	}
	if one.PipelineParallel != 1 || one.Causes.Pipeline != 0 || four.Schedule != "dense" {
		t.Errorf("one GPU has %d stages and waits for %g s; 4 GPUs run %s", one.PipelineParallel, one.Causes.Pipeline, four.Schedule)
	}
}

// A plan searches batches of at least one request for each stage. The GPU of a stage has all KV of its
// layers.
func TestPlanOfStages(t *testing.T) {
	p, o := parallelOptions(t, "llama-3.1-8b", 1)
	o.PipelineParallel = 3
	plan := PlanOptions{Options: o, MaxBatch: 16, Schedules: []Schedule{schedule(t, "dense")}, LayerMap: "nearest"}
	found, err := Plan(t.Context(), []*Profile{p}, plan)
	if err != nil || found.Candidates[0].PipelineParallel != 3 || found.Candidates[0].Batch < 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	if c := found.Candidates[0]; *c.Ratio != 1 || *c.Fill != 1 {
		t.Errorf("a stage keeps %g of the context, and %g would fill memory, expected all", *c.Ratio, *c.Fill)
	}
	plan.MaxBatch = 2
	if _, err := Plan(t.Context(), []*Profile{p}, plan); err == nil || !strings.Contains(err.Error(), "into 3 parts") {
		t.Errorf("%v, expected a batch that is too small", err)
	}
}

// Numbers of stages that cannot be priced are errors that say why.
func TestPipelineParallelRefused(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"schedule gpu runs on one GPU":        func(o *Options) { o.Schedule = OnGPU{} },
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
