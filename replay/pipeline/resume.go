package pipeline

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Resumption is the way in which a request comes back to the GPU after its KV left it.
type Resumption string

// The ways.
const (
	// ByRecompute runs the prompt and the generated tokens through prefill again.
	ByRecompute Resumption = "recompute"
	// BySwap moves the KV to host memory, and later back. Neither overlaps computation.
	BySwap Resumption = "swap"
	// ByHidden moves the inputs of all layers to the GPU and projects K and V from them, layer by layer.
	// A layer takes the longer of both (HCache, arXiv 2410.05004, section 4.1). Inputs were stored
	// while they were computed, and that is not counted.
	ByHidden Resumption = "hidden"
	// Never admits a request only if KV of its prompt and its whole answer fits, next to that of all running
	// requests. So no KV leaves the GPU. It is policy GUARANTEED_NO_EVICT of TensorRT-LLM.
	Never Resumption = "never"
)

// Resumptions are all of these ways.
var Resumptions = []Resumption{ByRecompute, BySwap, ByHidden, Never}

// Resumed is the price of a request that leaves the GPU and comes back.
type Resumed struct {
	Seconds float64
	Bytes   float64 // that come back over the link
	// Interval is the range of Seconds that the errors of the model allow.
	Interval Interval
}

// Resume prices one request of some tokens that leaves the GPU and comes back. The KV lies in blocks
// of block tokens, for each layer apart, as in paged attention.
func Resume(ctx context.Context, way Resumption, tokens, block int64, o Options) (*Resumed, error) {
	if tokens < 1 || block < 1 {
		return nil, fmt.Errorf("a request of %d tokens in blocks of %d, expected at least 1", tokens, block)
	}
	p, scaling, err := Decoding(int(tokens), 2, false, o.Model)
	if err != nil {
		return nil, err
	}
	o.Schedule, o.Scaling, o.Batch, o.Context, o.Steps = schedule.OnGPU{Dense: true}, scaling, 1, 0, 0
	o.Prefill = Prefill{Prompt: tokens}
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return nil, err
	}
	layers, blocks := float64(o.Model.Layers.Value), (tokens+block-1)/block
	resumed := func(bytes float64, seconds func(by *Uncertainty) float64) (*Resumed, error) {
		return &Resumed{seconds(&asModelled), bytes, r.factors.of(seconds)}, nil
	}
	switch way {
	case ByRecompute:
		first, err := r.firstTokens()
		if err != nil {
			return nil, err
		}
		return resumed(0, first.seconds)
	case BySwap:
		entry := float64(o.Model.Entry.Value)
		seconds := layers * (r.paged(r.store, entry, blocks, block) + r.paged(r.fetch, entry, blocks, block))
		return resumed(layers*float64(tokens)*entry, func(by *Uncertainty) float64 { return seconds * by[LinkModel] })
	case ByHidden:
		h, err := r.hidden(tokens, block)
		if err != nil {
			return nil, err
		}
		return resumed(h.bytes, h.seconds)
	}
	return nil, fmt.Errorf("resume by %q: expected recompute, swap or hidden", way)
}

// paged returns the time to move a layer's entries of some blocks.
func (r *runner) paged(path transfer.Path, entry float64, blocks, block int64) float64 {
	return path.Time(transfer.Request{Descriptors: blocks * max(1, r.Fragments), Bytes: int64(entry) * blocks * block, Launches: 1})
}

// hidden is the work of ByHidden: the times of a layer's fetch and projection, and the bytes of all
// layers.
type hidden struct{ layers, fetch, project, bytes float64 }

// seconds returns the time of all layers. The first overlaps nothing.
func (h *hidden) seconds(by *Uncertainty) float64 {
	fetch, project := h.fetch*by[LinkModel], h.project*by[KernelModel]
	return h.layers*max(fetch, project) + min(fetch, project)
}

// hidden returns the work of ByHidden for a request.
func (r *runner) hidden(tokens, block int64) (*hidden, error) {
	if !r.Model.CachesKeysAndValues() {
		return nil, fmt.Errorf("resume by hidden states: %s does not cache K and V in FP16: choose swap", r.Model.Name)
	}
	e, err := operator.ParseEntry("hidden", r.Model)
	if err != nil {
		return nil, err
	}
	layers, bytes := float64(r.Model.Layers.Value), e.Bytes(r.Model)
	_, project := r.operators.Restore(e, operator.Arrivals{Requests: 1, Entries: float64(tokens), Heads: 1})
	return &hidden{layers, r.paged(r.fetch, bytes, (tokens+block-1)/block, block), project, layers * float64(tokens) * bytes}, nil
}
