package serving

import (
	"context"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Engine describes an engine on a machine, of which NewEngine makes Options and a Pricer.
type Engine struct {
	pipeline.Options // machine, model, kernels, engine and parallelism. Reserve is 1 − vLLM's gpu_memory_utilization
	Preempt          pipeline.Resumption
	BlockTokens      int
	Budget           int
	MaxRunning       int
	// Uncached is set for eLLM, whose Fused is that of pipeline.ELLM.
	Uncached, Fused bool
	Elastic         bool
	Blocks          int // 0: as many as fit
}

// largestGroup is the number of layers of eLLM's largest groups: 3 swapped and 2 made again.
const largestGroup = 5

// NewEngine returns the options of an engine, without its scheduler, and its prices. Only one run at
// a time may use them.
func NewEngine(ctx context.Context, e Engine) (Options, *Priced, error) {
	o := e.Options
	o.Batch, o.Prefill.Chunk = min(e.MaxRunning, e.Budget), int64(e.Budget)
	if o.Batch < 1 || e.BlockTokens < 1 {
		return Options{}, nil, fmt.Errorf("%d running requests, %d tokens an iteration and blocks of %d tokens, expected at least 1", e.MaxRunning, e.Budget, e.BlockTokens)
	}
	it, err := pipeline.NewIterations(ctx, o, e.Fused)
	if err != nil {
		return Options{}, nil, err
	}
	p := &Priced{Iterations: it, block: int64(e.BlockTokens)}
	r := it.Room()
	m := Memory{Total: int64(r.Total - r.Fixed), Weights: int64(r.Weights), Token: int64(r.Token), Output: int64(r.Output),
		Block: int64(r.Entry) * p.block, Hidden: int64(2 * float64(e.Model.Hidden.Value) * float64(e.Model.Layers.Value)),
		Host: int64(r.Host), Elastic: e.Elastic, Blocks: e.Blocks}
	if e.Uncached { // the uncached KV of two groups (section 4.3.2)
		m.Buffer = int64(r.Entry * min(1, 2*largestGroup/float64(e.Model.Layers.Value)))
	}
	return Options{Preempt: e.Preempt, BlockTokens: e.BlockTokens, Budget: e.Budget, MaxRunning: e.MaxRunning,
		Ahead: true, Reserve: true, NoPrefix: e.Uncached, Memory: m}, p, nil
}

// Priced is the Pricer of a machine and a model.
type Priced struct {
	*pipeline.Iterations
	block int64
}

// Iteration returns the time of an iteration, in ns.
func (p *Priced) Iteration(x *pipeline.Iteration) (int64, error) {
	seconds, err := p.Seconds(x)
	return nanoseconds(seconds), err
}

// Store returns the time to move blocks to the host, in ns.
func (p *Priced) Store(blocks int64) int64 { return nanoseconds(p.Iterations.Store(blocks, p.block)) }

// Fetch returns the time to move blocks to the GPU, in ns.
func (p *Priced) Fetch(blocks int64) int64 { return nanoseconds(p.Iterations.Fetch(blocks, p.block)) }

// Restore returns the time to make KV of hidden states, in ns.
func (p *Priced) Restore(tokens int64) (int64, error) {
	seconds, err := p.Iterations.Restore(tokens, p.block)
	return nanoseconds(seconds), err
}

// nanoseconds rounds seconds. Times beyond 73 years stay there, which Run refuses.
func nanoseconds(seconds float64) int64 {
	return int64(math.Round(min(seconds*1e9, math.MaxInt64/4)))
}
