package pipeline

import (
	"fmt"
	"strings"
)

// Pipeline parallelism divides the layers among GPUs of a host (GPipe, Huang et al. 2019). Each GPU
// has consecutive layers, a stage, with their KV. The batch is divided into as many micro-batches, one
// in each stage at a time. A stage sends the hidden states of a micro-batch to the next one.

// inStages is dense decoding in stages. Micro-batches take turns in every stage, and each begins its
// next step when it has passed all stages. Let t_ps be the time of micro-batch p in stage s, and
// send_p its time between stages. In the steady state, a step takes
//
//	max(max_p(Σ_s t_ps + stages·send_p), max_s Σ_p t_ps)
//
// The last send returns the token to the first stage. Sends take no time of the SMs. The timeline
// shows the way of the longest micro-batch, with its wait for the slowest stage at the end.
type inStages struct {
	OnGPU
	stages int
}

// Parts returns the number of micro-batches.
func (g *inStages) Parts() int { return g.stages }

// Place adds the way of the longest micro-batch through all stages.
func (g *inStages) Place(t *Timeline, s *Step) {
	longest, period := 0, 0.
	for p := range s.Parts {
		if g.passes(s, p) > g.passes(s, longest) {
			longest = p
		}
	}
	for stage := range g.stages {
		period = max(period, g.works(s, stage))
	}
	last := None
	for stage := range g.stages {
		from, to := g.layers(s, stage)
		for i := from; i < to; i++ {
			last = t.attendDensely(&s.Parts[longest][i], i, last, None)
		}
		if stage == g.stages-1 {
			last = t.Add(Output, len(s.Whole), 0, s.Outputs[longest], last)
		}
		last = t.Add(SendStates, to-1, longest, s.Sends[longest], last)
	}
	t.Add(WaitStage, len(s.Whole)-1, longest, max(0, period-g.passes(s, longest)), last)
}

// layers returns the first layer of a stage and the one after its last.
func (g *inStages) layers(s *Step, stage int) (from, to int) {
	n := len(s.Whole)
	return stage * n / g.stages, (stage + 1) * n / g.stages
}

// passes returns the time of a micro-batch through all stages.
func (g *inStages) passes(s *Step, p int) (seconds float64) {
	for stage := range g.stages {
		seconds += g.takes(s, p, stage)
	}
	return seconds + float64(g.stages)*s.Sends[p]
}

// works returns the time of a stage for all micro-batches.
func (g *inStages) works(s *Step, stage int) (seconds float64) {
	for p := range s.Parts {
		seconds += g.takes(s, p, stage)
	}
	return seconds
}

// takes returns the time of a micro-batch in a stage.
func (g *inStages) takes(s *Step, p, stage int) (seconds float64) {
	from, to := g.layers(s, stage)
	for i := from; i < to; i++ {
		l := &s.Parts[p][i]
		seconds += l.Project + l.Pre + l.Dense.Attend + l.finishing()
	}
	if stage == g.stages-1 {
		seconds += s.Outputs[p]
	}
	return seconds
}

// parts returns the number of parts of the batch, and so the smallest batch.
func (o *Options) parts() int { return max(o.Schedule.Parts(), o.PipelineParallel) }

// checkStages refuses numbers of stages that a model or a schedule does not allow.
func (o *Options) checkStages() error {
	n := o.PipelineParallel
	if n <= 1 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("--pipeline-parallel %d: "+format, append([]any{n}, args...)...)
	}
	switch {
	case o.Schedule != OnGPU{Dense: true}:
		return refuse("schedule %s runs on one GPU: choose dense", o.Schedule.Name())
	case o.TensorParallel > 1:
		return refuse("it does not combine with --tensor-parallel %d: choose one", o.TensorParallel)
	case o.Model.MoE != nil:
		return refuse("%s has routed experts, which stages do not divide: choose another model", o.Model.Name)
	case n > int(o.Model.Layers.Value):
		return refuse("%s has %g layers: choose at most as many GPUs", o.Model.Name, o.Model.Layers.Value)
	case n > o.Batch:
		return refuse("a batch of %d has too few requests: choose at least one for each GPU", o.Batch)
	case o.Network == nil:
		return refuse("it needs a network between the GPUs")
	}
	return nil
}

// divideStages sets the schedule of the stages, and the network between them.
func (r *runner) divideStages() (err error) {
	if r.PipelineParallel = max(1, r.PipelineParallel); r.PipelineParallel == 1 {
		return nil
	}
	if r.stages, err = r.Network(r.Machine, r.PipelineParallel); err != nil {
		return err
	}
	r.Schedule = &inStages{OnGPU{Dense: true}, r.PipelineParallel}
	r.note("pipeline parallelism: %d GPUs divide the layers and the batch, sends are derived from constants of %s",
		r.PipelineParallel, strings.Join(r.stages.NCCL.Basis, " and "))
	return nil
}

// priceStages prices what the stages of a step need for each micro-batch.
func (r *runner) priceStages(s *Step) error {
	s.Outputs, s.Sends = s.Outputs[:0], s.Sends[:0]
	if r.stages == nil {
		return nil
	}
	for i := range r.parts {
		p := &r.parts[i]
		queries := p.positions
		if p.same >= 0 {
			queries = r.parts[p.same].positions
		}
		output, err := r.computer.Output(queries)
		if err != nil {
			return err
		}
		s.Outputs = append(s.Outputs, output)
		s.Sends = append(s.Sends, r.stages.Send(queries*float64(r.Model.Hidden.Value)*halfBytes))
	}
	return nil
}

// ofStage replaces weights and KV of all layers by those of the largest stage. It counts both
// embedding matrices, which the first and the last stage have.
func (r *runner) ofStage(mem *Memory) {
	if r.stages == nil {
		return
	}
	layers, n := int(r.Model.Layers.Value), r.PipelineParallel
	share := float64((layers+n-1)/n) / float64(layers)
	embedding := r.Model.Bytes(r.Model.EmbeddingParameters())
	mem.Weights = embedding + share*(mem.Weights-embedding)
	mem.Cache, mem.kv = mem.Cache*share, mem.kv*share
}
