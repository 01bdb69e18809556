package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Iteration is one pass of a serving engine over a mixed batch (Yu et al., Orca, OSDI 2022). Some
// requests decode one token each. Others run a part of their prompt (Agrawal et al., Sarathi-Serve,
// OSDI 2024).
type Iteration struct {
	Chunks  []operator.Chunk
	Decodes int64 // requests that decode
	Context int64 // cached tokens of the decoding requests, with the new ones
	TopK    int64 // tokens that an indexer selects for each token, 0 for all
	// Selected is the number of tokens that all decoding requests attend to.
	Selected int64
	Longest  int64 // tokens of the longest decoding request, 0 if all are equal
	Outputs  int64 // tokens that are sampled
	// Group states the work of the GPUs that share routed experts, nil if all have as much.
	Group *GroupWork
	// Again is the number of tokens whose KV is not on the GPU, and that eLLM makes again. Squares is
	// the sum of the squares of these numbers over the requests.
	Again, Squares float64
}

// GroupWork is the work of GPUs that share routed experts and have requests of their own.
type GroupWork struct {
	Tokens  float64 // of a GPU, the mean
	Decodes int64   // requests of the GPU that has most
	Prompts bool    // whether a GPU runs a part of a prompt
}

// AddDecode adds a request that decodes with some tokens, of which again are made again.
func (x *Iteration) AddDecode(tokens, again int64) {
	x.Decodes++
	x.Context += tokens
	x.Selected += selected(tokens, x.TopK)
	x.Longest = max(x.Longest, tokens)
	x.Again += float64(again)
	x.Squares += float64(again) * float64(again)
}

// selected returns the tokens of some that an indexer selects. 0 as topk selects all.
func selected(tokens, topk int64) int64 {
	if topk > 0 {
		return min(tokens, topk)
	}
	return tokens
}

// Iterations prices iterations on one machine. Only one goroutine may use it.
type Iterations struct {
	r     *runner
	fused bool
	kinds []layerKind
	layer []schedule.Layer // of the latest iteration
}

// layerKind is a number of layers with one shape.
type layerKind struct{ number, layer int }

// NewIterations returns the prices of iterations of at most o.Batch requests and o.Prefill.Chunk
// tokens of prompts. Options that describe a profile are ignored. fused sets schedule.ELLM.Fused. A model with an
// indexer attends to the tokens that it selects, other models to all.
func NewIterations(ctx context.Context, o Options, fused bool) (*Iterations, error) {
	p, scaling, err := Decoding(1, 2, false, o.Model)
	if err != nil {
		return nil, err
	}
	o.Schedule, o.Scaling, o.Context, o.Steps = schedule.OnGPU{Dense: o.Model.Indexer == nil}, scaling, 0, 0
	if o.Selection, err = operator.ParseSelection("auto", o.Model); err != nil {
		return nil, err
	}
	o.Prefill.Prompt = max(1, o.Prefill.Chunk)
	r, err := newRunner(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if e := o.Engine; e != nil && e.Graphs != nil {
		r.note("engine %s: a batch that decodes has the tokens of the next CUDA graph, of %d to %d requests or the most that run", e.Name, e.Graphs[0], e.Graphs[len(e.Graphs)-1])
	}
	return &Iterations{r: r, fused: fused, kinds: r.kinds()}, nil
}

// kinds returns the layers of a model by shape: the dense ones first, then those with experts.
func (r *runner) kinds() []layerKind {
	dense, layers := r.denseLayers(), int(r.Model.Layers.Value)
	kinds := []layerKind{{dense, 0}, {layers - dense, layers - 1}}
	return slice.Filter(kinds, func(k layerKind) bool { return k.number > 0 })
}

// denseLayers returns the number of layers before those with routed experts, 0 without any.
func (r *runner) denseLayers() int {
	if m := r.Model.MoE; m != nil {
		return int(m.DenseLayers.Value)
	}
	return 0
}

// Notes returns the assumptions.
func (it *Iterations) Notes() []string {
	notes := slices.Concat(it.r.notes, it.r.operators.Notes())
	return slice.Filter(notes, func(n string) bool { return !strings.HasPrefix(n, noMisses) && n != ratePerGPU }) // no iteration has any
}

// TopK returns the tokens that the model's indexer selects, 0 for all.
func (it *Iterations) TopK() int64 { return it.r.Selection.TopK(it.r.Model) }

// graph returns the tokens of an iteration's CUDA graph. GPUs that share routed experts have the same graph, or none.
func (it *Iterations) graph(x *Iteration) (tokens int64, captured bool) {
	e, batch, prompts := it.r.Engine, x.Decodes, len(x.Chunks) > 0
	switch {
	case e == nil || e.Graphs == nil:
		return batch, true
	case x.Group != nil:
		batch, prompts = x.Group.Decodes, x.Group.Prompts
	}
	if prompts {
		return batch, false
	}
	return e.Graph(batch, int64(it.r.Batch))
}

// Seconds returns the time of an iteration. Tokens that are made again follow ELLM, with the
// fastest of its groups.
func (it *Iterations) Seconds(x *Iteration) (float64, error) {
	r := it.r
	load := operator.Load{Requests: float64(x.Decodes), Queries: float64(x.Decodes), Context: float64(x.Context), Longest: float64(x.Longest), Scored: float64(x.Context),
		Attended: float64(x.Selected), Bytes: float64(x.Selected) * float64(r.Model.Entry.Value),
		Again: x.Again, Pairs: (x.Squares + x.Again) / 2, Chunks: x.Chunks}
	load.Selected = min(load.Pairs, x.Again*float64(x.TopK)) // at most, as the lengths are not known
	for _, c := range x.Chunks {
		load.Queries += float64(c.Tokens)
	}
	outputs := float64(x.Outputs)
	if g := x.Group; g != nil {
		load.RoutedTokens = g.Tokens
	}
	if tokens, captured := it.graph(x); !captured {
		load.Eager = true
	} else if tokens > x.Decodes {
		load.Queries, outputs = float64(tokens), float64(tokens)
		if x.Group != nil {
			load.RoutedTokens = float64(tokens)
		}
	}
	reduce := r.group.AllReduce(load.Queries)
	output, err := r.operators.Output(outputs)
	if err != nil {
		return 0, err
	}
	output += r.group.GatherLogits(outputs)
	step := schedule.Step{Whole: it.layer[:0], Output: reduce + output}
	sum := step.Output // without tokens that are made again
	for _, k := range it.kinds {
		o, err := r.operators.Layer(k.layer, &load)
		if err != nil {
			return 0, err
		}
		l := schedule.Layer{Project: o.Project, Pre: o.Pre, Post: o.Post + 2*reduce, Dispatch: o.Dispatch, Combine: o.Combine}
		l.Dense.Attend, l.Dense.Again = o.AttendChunks, o.Again
		if x.TopK > 0 {
			l.Dense.Attend += o.Select + o.Attend
		} else {
			l.Dense.Attend += o.AttendAll
		}
		if x.Again == 0 {
			seconds := l.Project + l.Pre + l.Dense.Attend + l.Finishing()
			for range k.number {
				sum += seconds
			}
			continue
		}
		moved := transfer.Request{Descriptors: max(1, x.Decodes), Bytes: int64(x.Again * float64(r.Model.Entry.Value)), Launches: 1}
		l.Dense.Uncached = schedule.Transfer{Seconds: r.fetch.Time(moved)}
		for range k.number {
			step.Whole = append(step.Whole, l)
		}
	}
	if x.Again == 0 {
		return sum, nil
	}
	it.layer = step.Whole
	return (&schedule.ELLM{Swap: -1, Fused: it.fused}).Closed(&step), nil
}

// Store and Fetch return the seconds in which the KV of some blocks of block tokens moves to host
// memory or back. Restore returns the seconds in which hidden states come back and become KV.
func (it *Iterations) Store(blocks, block int64) float64 {
	return float64(it.r.Model.Layers.Value) * it.r.paged(it.r.store, it.r.stored(), blocks, block)
}

// Fetch is the reverse of Store.
func (it *Iterations) Fetch(blocks, block int64) float64 {
	return float64(it.r.Model.Layers.Value) * it.r.paged(it.r.fetch, it.r.stored(), blocks, block)
}

// Restore returns the seconds of ByHidden.
func (it *Iterations) Restore(tokens, block int64) (float64, error) {
	h, err := it.r.hidden(tokens, block)
	if err != nil {
		return 0, err
	}
	return h.seconds(&asModelled), nil
}

// stored returns the bytes of a token in a layer: its entry, and its key of an indexer.
func (r *runner) stored() float64 {
	index, _ := r.held(r.Batch)
	return float64(r.Model.Entry.Value) + index
}
