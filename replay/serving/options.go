package serving

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Pricer states the times of an engine's work, in ns.
type Pricer interface {
	Iteration(x *pipeline.Iteration) (int64, error)
	// Store and Fetch move blocks of KV to the host and back. Restore makes KV of hidden states.
	Store(blocks int64) int64
	Fetch(blocks int64) int64
	Restore(tokens int64) (int64, error)
}

// Options describe an engine.
type Options struct {
	Scheduler   Scheduler // nil for FCFS
	Preempt     pipeline.Resumption
	BlockTokens int // tokens of a block of KV
	Budget      int // largest number of tokens in an iteration
	MaxRunning  int // largest number of requests that run
	// Replicas, if above 1, is the number of replicas of the model that share the requests. Each has its
	// own memory, Budget and MaxRunning. They start iterations together.
	Replicas int
	// TopK is the number of tokens that an indexer selects, 0 for all.
	TopK int64
	// Ahead forms an iteration while the one before it runs, as vLLM's asynchronous scheduling does.
	Ahead bool
	// Reserve admits a request only if KV of its whole prompt fits.
	Reserve bool
	// NoPrefix forgets the KV of blocks that no request holds.
	NoPrefix bool
	Memory   Memory
	// Priority lists the classes that are served first, in this order. Others come last and are equal.
	Priority []string
	Limits   Limits
}

// priority returns the place of a class.
func (o *Options) priority(class string) int {
	if i := slices.Index(o.Priority, class); i >= 0 {
		return i
	}
	return len(o.Priority)
}

// Memory is the memory of one GPU and of the host that it may use, in bytes.
type Memory struct {
	Total   int64 // for all pools
	Weights int64
	// Token is the activations of a token in the layers of an iteration, and Layer those whatever the
	// tokens. The sampler runs after them,
	// and needs Kept for each token and Output for each sampled one.
	Token, Layer, Kept, Output int64
	Block                      int64 // a block of KV, in all layers
	Hidden                     int64 // hidden states of a token, in all layers
	Buffer                     int64 // KV of an uncached token, in the layers that are made again at once
	Host                       int64
	// Elastic gives KV the memory that the activations of an iteration do not need. Otherwise
	// activations keep the room of the largest iteration.
	Elastic bool
	// Blocks, if above 0, is the number of blocks whatever the other fields say.
	Blocks int
	// Cached, if above 0, is the number of tokens of a request whose KV is on the GPU, with sparse
	// attention. Copied is set if host memory holds the KV of all tokens. Index is the bytes that the
	// selection needs on the GPU for each token.
	Cached int
	Copied bool
	Index  int64
}

// limit returns the blocks that fit next to the activations of an iteration, −1 if these do not fit.
func (o *Options) limit(tokens, outputs, again int64) int {
	m := &o.Memory
	if m.Blocks > 0 {
		return m.Blocks
	}
	free := m.Total - m.Weights - o.activations(tokens, outputs, again) - again*m.Buffer
	if free < 0 {
		return -1
	}
	return int(free / m.Block)
}

// activations returns the bytes of activations of an iteration.
func (o *Options) activations(tokens, outputs, again int64) int64 {
	m := &o.Memory
	if !m.Elastic {
		tokens, outputs = int64(o.Budget), int64(min(o.MaxRunning, o.Budget))
	}
	return max(m.Layer+(tokens+again)*m.Token, tokens*m.Kept+outputs*m.Output)
}

// blocks returns the blocks of KV of some tokens of a request.
func (o *Options) blocks(tokens int) int {
	m, kept := &o.Memory, tokens
	if m.Cached > 0 {
		kept = min(tokens, m.Cached)
	}
	blocks := (kept + o.BlockTokens - 1) / o.BlockTokens
	if m.Index == 0 {
		return blocks
	}
	return blocks + int((int64(tokens)*m.Index+m.Block-1)/m.Block)
}

// Occupied returns the bytes of a GPU with total bytes that hold neither weights nor KV, next to the
// activations of the largest iteration.
func (o *Options) Occupied(total int64) int64 {
	fixed := *o
	fixed.Memory.Elastic = false
	if m := &o.Memory; m.Blocks > 0 {
		return total - m.Weights - int64(m.Blocks)*m.Block
	}
	return total - o.Memory.Total + fixed.activations(0, 0, 0)
}

// most is the number of blocks without activations.
func (o *Options) most() int { return o.limit(0, 0, 0) }

// mostBlocks bounds the memory of a run.
const mostBlocks = 1 << 26

func (o *Options) check() error {
	m := &o.Memory
	switch {
	case o.BlockTokens < 1 || o.BlockTokens > PrefixTokens || PrefixTokens%o.BlockTokens != 0:
		return fmt.Errorf("blocks of %d tokens, expected a divisor of %d", o.BlockTokens, PrefixTokens)
	case o.Budget < 1 || o.Budget > MostTokens || o.MaxRunning < 1:
		return fmt.Errorf("%d tokens an iteration and %d running requests, expected at least 1", o.Budget, o.MaxRunning)
	case m.Block < 1 || m.Weights < 0 || m.Token < 0 || m.Layer < 0 || m.Kept < 0 || m.Output < 0 || m.Hidden < 0 || m.Buffer < 0 || m.Host < 0 || m.Cached < 0 || m.Index < 0 || m.Index > 0 && m.Cached == 0:
		return errors.New("negative memory, blocks without bytes, or an index without a cache")
	case !slices.Contains(pipeline.Resumptions, o.Preempt):
		return fmt.Errorf("preempt %q, expected recompute, swap, hidden or never", o.Preempt)
	case o.Preempt == pipeline.Never && m.Elastic:
		return errors.New("a system that never preempts promises memory, which elastic memory may take back: leave out --elastic")
	}
	switch n := o.most(); {
	case n < 1:
		return fmt.Errorf("memory holds no block of KV: weights and activations need %s, and %s are free. Divide them with --tensor-parallel, or experts with --expert-gpus",
			hardware.Bytes(m.Weights+o.activations(0, 0, 0)), hardware.Bytes(max(0, m.Total)))
	case n > mostBlocks:
		return fmt.Errorf("memory of %d blocks of KV, expected at most %d: choose larger blocks", n, mostBlocks)
	}
	return nil
}
