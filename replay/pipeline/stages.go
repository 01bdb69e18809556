package pipeline

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

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
	case o.Schedule != schedule.OnGPU{Dense: true}:
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
	r.Schedule = &schedule.Stages{OnGPU: schedule.OnGPU{Dense: true}, GPUs: r.PipelineParallel}
	r.note("pipeline parallelism: %d GPUs divide the layers and the batch, sends are derived from constants of %s",
		r.PipelineParallel, strings.Join(r.stages.NCCL.Basis, " and "))
	return nil
}

// priceStages prices the vocabulary projection and the send of each micro-batch.
func (r *runner) priceStages(s *schedule.Step) error {
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
		output, err := r.operators.Output(queries)
		if err != nil {
			return err
		}
		s.Outputs = append(s.Outputs, output)
		s.Sends = append(s.Sends, r.stages.Send(queries*float64(r.Model.Hidden.Value)*hardware.HalfBytes))
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
