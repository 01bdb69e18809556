package serving

import (
	"context"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Engine describes an engine on a machine, of which NewEngine makes Options and a Pricer.
type Engine struct {
	pipeline.Options // machine, model, kernels, engine and parallelism. Reserve is 1 − vLLM's gpu_memory_utilization
	Preempt          pipeline.Resumption
	BlockTokens      int
	Budget           int
	MaxRunning       int
	// Uncached runs eLLM. Fused is its option schedule.ELLM.Fused.
	Uncached, Fused bool
	Elastic         bool
	Blocks          int // 0: as many as fit
	// Replicas is the number of GPUs that share routed experts and the requests, 0 or 1 for none.
	Replicas int
	// Sparse is set for sparse attention with a cache of limited size.
	Sparse *Sparse
}

// Sparse describes sparse attention. Its memory is that of one GPU, in bytes.
type Sparse struct {
	Cached  int   // tokens of a request whose KV is on the GPU
	Copied  bool  // the host has the KV of all tokens
	Index   int64 // of each token
	Staging int64 // of an iteration
	// Step returns the time in which a batch decodes a token each at a context, in seconds, with the
	// misses of a replay. Runs ask for the same sizes again and again.
	Step func(size SparseSize) (float64, error)
}

// SparseSize is a batch and its context in tokens, as their logs to base 2.
type SparseSize struct{ Batch, Context int }

// leastLog is the log of the smallest context of a SparseSize.
const leastLog = 8

// seconds interpolates between the next smaller and larger powers of two, in both the batch and the
// mean context.
func (s *Sparse) seconds(batch, tokens float64) (float64, error) {
	b, c := max(0, int(math.Log2(batch))), max(leastLog, int(math.Log2(tokens)))
	along := func(v float64, log int) float64 { return max(0, v/math.Exp2(float64(log))-1) }
	sum := 0.
	for _, corner := range []struct {
		b, c  int
		share float64
	}{
		{0, 0, (1 - along(batch, b)) * (1 - along(tokens, c))}, {1, 0, along(batch, b) * (1 - along(tokens, c))},
		{0, 1, (1 - along(batch, b)) * along(tokens, c)}, {1, 1, along(batch, b) * along(tokens, c)},
	} {
		if corner.share == 0 {
			continue
		}
		at, err := s.Step(SparseSize{b + corner.b, c + corner.c})
		if err != nil {
			return 0, err
		}
		sum += corner.share * at
	}
	return sum, nil
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
	if e.Replicas > 1 && e.Replicas != o.Experts {
		return Options{}, nil, fmt.Errorf("%d replicas and %d GPUs that share routed experts, expected as many", e.Replicas, o.Experts)
	}
	it, err := pipeline.NewIterations(ctx, o, e.Fused)
	if err != nil {
		return Options{}, nil, err
	}
	p := &Priced{Iterations: it, block: int64(e.BlockTokens), sparse: e.Sparse}
	r := it.Room()
	token := int64(r.Entry)
	if e.Sparse == nil { // which has an index of its own
		token += int64(r.Index)
	}
	block := token * p.block
	if need := float64(e.Blocks)*float64(block) + r.Weights; e.Blocks > 0 && need > r.Total {
		return Options{}, nil, fmt.Errorf("%d blocks of KV and the weights take %s, but a GPU has %s: state fewer blocks",
			e.Blocks, hardware.Bytes(need), hardware.Bytes(r.Total))
	}
	m := Memory{Total: int64(r.Total-r.Fixed) - block, // vLLM keeps a block without content
		Weights: int64(r.Weights), Token: int64(r.Token), Layer: int64(r.Layer), Kept: int64(r.Kept), Output: int64(r.Output), Block: block, Hidden: int64(2 * float64(e.Model.Hidden.Value) * float64(e.Model.Layers.Value)),
		Host: int64(r.Host), Elastic: e.Elastic, Blocks: e.Blocks}
	if e.Uncached { // the uncached KV of two groups (section 4.3.2)
		m.Buffer = int64(r.Entry * min(1, 2*largestGroup/float64(e.Model.Layers.Value)))
	}
	if s := e.Sparse; s != nil {
		m.Cached, m.Copied, m.Index, m.Total = s.Cached, s.Copied, s.Index, m.Total-s.Staging
	}
	return Options{Preempt: e.Preempt, BlockTokens: e.BlockTokens, Budget: e.Budget, MaxRunning: e.MaxRunning,
		Replicas: e.Replicas, TopK: it.TopK(), Ahead: true, Reserve: true, NoPrefix: e.Uncached, Memory: m}, p, nil
}

// Priced is the Pricer of a machine and a model.
type Priced struct {
	*pipeline.Iterations
	block  int64
	sparse *Sparse
}

// Iteration returns the time of an iteration, in ns. With sparse attention, prompts attend to all
// tokens before them, and run after the requests that decode.
func (p *Priced) Iteration(x *pipeline.Iteration) (int64, error) {
	if p.sparse == nil || x.Decodes == 0 {
		seconds, err := p.Seconds(x)
		return nanoseconds(seconds), err
	}
	seconds, err := p.sparse.seconds(float64(x.Decodes), float64(x.Context)/float64(x.Decodes))
	if err != nil || len(x.Chunks) == 0 {
		return nanoseconds(seconds), err
	}
	prompts, err := p.Seconds(&pipeline.Iteration{Chunks: x.Chunks, Outputs: x.Outputs - x.Decodes})
	return nanoseconds(seconds + prompts), err
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
