package pipeline

import (
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Prefill runs the prompts through all layers. Every token attends to the tokens before it. Chunked
// prefill (Agrawal et al., Sarathi, arXiv 2308.16369) bounds the tokens of a pass, so that a pass
// takes bounded time and memory. Later chunks of a prompt attend to the cache of earlier ones.
//
// A layer takes the longer of its computation and its transfers. New KV goes to the host, and weights
// and earlier KV come from there, if the schedule keeps them on it.
//
// In pipeline parallelism, passes follow each other through the stages.
//
// With experts on other GPUs, a pass may have two halves. One computes while the tokens of the other move
// (DeepSeek-V3, Technical Report, arXiv 2412.19437, section 3.4.1).

// Prefill describes the prompts of a batch of equal requests.
type Prefill struct {
	Prompt int64 // tokens of each request, 0: no prefill is priced
	Chunk  int64 // largest number of tokens of a pass, 0: all prompts at once
	// Overlap computes one half of the prompts of a pass while the exchanges of the other run. A pass with one
	// prompt has no halves.
	Overlap bool
}

// exchangeSMs is the number of SMs that exchanges of prompts take (DeepSeek-V3, section 3.2.2).
const exchangeSMs = 20

// mostPasses bounds the passes over one prompt.
const mostPasses = 1 << 12

func (p Prefill) check() error {
	switch {
	case p.Prompt < 0 || p.Prompt > mostContext:
		return fmt.Errorf("prompt %d, expected 0 to %d", p.Prompt, int64(mostContext))
	case p.Chunk < 0 || p.Chunk > mostContext:
		return fmt.Errorf("prefill chunk %d, expected 0 to %d", p.Chunk, int64(mostContext))
	case p.Chunk > 0 && p.Prompt/p.Chunk >= mostPasses:
		return fmt.Errorf("prefill chunk %d: expected fewer than %d passes over a prompt of %d", p.Chunk, mostPasses, p.Prompt)
	}
	return nil
}

// tokens returns the tokens of the largest pass over a batch if a chunk is stated, else 0.
func (p Prefill) tokens(batch int64) int64 {
	switch {
	case p.Chunk == 0 || p.Prompt == 0:
		return 0
	case p.Chunk < p.Prompt:
		return p.Chunk
	}
	return min(batch, p.Chunk/p.Prompt) * p.Prompt
}

// pass is a part of each of some prompts that goes through the model at once.
type pass struct {
	requests, tokens float64 // tokens of each request
	before           float64 // cached tokens of each
	last             bool    // the prompts end, and their first tokens are sampled
}

// prompts are the priced passes over the prompts of a batch.
type prompts struct {
	passes []passPrice
	stages float64 // of a pipeline, 1 without
	send   float64 // of the largest pass to the next stage, s
}

// passPrice is the time of a pass by submodel, in seconds.
type passPrice struct {
	times           float64 // equal passes
	layers          []layersPrice
	embed           float64 // all-reduce after the embedding
	kernels, gather float64 // logits of the first tokens, or what an engine does between passes
}

// layersPrice is the time of one of some equal layers of a pass by submodel, in seconds.
type layersPrice struct {
	number    float64
	kernels   float64
	network   float64 // follows the kernels
	overlaps  bool    // the network runs next to the kernels of the other half
	sms       float64 // share of the SMs that the network then takes
	least     float64 // of an engine
	transfers float64 // overlap all of these
}

// seconds returns the time of a pass if each submodel takes its factor as long.
func (x *passPrice) seconds(by *Uncertainty) float64 {
	sum := x.embed * by[NetworkModel]
	for _, l := range x.layers {
		kernels, network := l.kernels*by[KernelModel], l.network*by[NetworkModel]
		busy := kernels + network
		if l.overlaps {
			busy = max(network, kernels+l.sms*network)
		}
		busy = max(busy, l.least*by[KernelModel])
		sum += l.number * max(busy, l.transfers*by[LinkModel])
	}
	return sum + x.kernels*by[KernelModel] + x.gather*by[NetworkModel]
}

// seconds returns the time until all requests have their first token, if each submodel takes its
// factor as long.
func (p *prompts) seconds(by *Uncertainty) float64 {
	var sum, longest float64
	for i := range p.passes {
		seconds := p.passes[i].seconds(by)
		sum, longest = sum+p.passes[i].times*seconds, max(longest, seconds)
	}
	if n := p.stages; n > 1 { // a stage has an n-th of each pass
		sum = (sum+(n-1)*longest)/n + (n-1)*p.send*by[NetworkModel]
	}
	return sum
}

// firstTokens prices the time until all requests have their first token. Their prompts arrive
// together. Without chunks they are one pass, or one for each stage of a pipeline. With chunks a
// pass has as many whole prompts as fit, or a part of one prompt.
func (r *runner) firstTokens() (*prompts, error) {
	switch p := r.Prefill; {
	case p.Overlap && r.exchange == nil:
		return nil, errors.New("--prefill-overlap hides exchanges of experts, and none is priced: state --expert-gpus above 1, or remove it")
	case p.Overlap && r.Machine.GPU.SMs.Value < exchangeSMs:
		return nil, fmt.Errorf("--prefill-overlap takes %d SMs, but GPU %s has %g: remove it", exchangeSMs, r.Machine.GPU.Name, r.Machine.GPU.SMs.Value)
	case p.Overlap && (r.Batch < 2 || p.Chunk > 0 && p.Chunk < 2*p.Prompt):
		return nil, errors.New("--prefill-overlap needs two prompts in a pass: state a larger --batch or --prefill-chunk")
	}
	p, most := &prompts{stages: 1}, 0. // tokens of a pass
	err := r.passes(func(times int64, x pass) error {
		price, err := r.pass(x)
		price.times, most = float64(times), max(most, x.requests*x.tokens)
		p.passes = append(p.passes, price)
		return errors.Join(err, r.ctx.Err())
	})
	if r.stages != nil {
		p.stages, p.send = float64(r.PipelineParallel), r.stages.Send(most*float64(r.Model.Hidden.Value)*hardware.HalfBytes)
	}
	return p, err
}

// passes calls f for the passes of the batch, with the number of equal ones.
func (r *runner) passes(f func(times int64, x pass) error) (err error) {
	p, batch := r.Prefill, int64(r.Batch)
	add := func(times int64, x pass) {
		if err == nil && times > 0 {
			err = f(times, x)
		}
	}
	chunk := p.Chunk
	if n := int64(r.PipelineParallel); chunk == 0 { // one pass, or a micro-batch for each stage
		chunk = (batch + n - 1) / n * p.Prompt
	}
	if whole := min(batch, chunk/p.Prompt); whole > 0 {
		add(batch/whole, pass{requests: float64(whole), tokens: float64(p.Prompt), last: true})
		add(min(1, batch%whole), pass{requests: float64(batch % whole), tokens: float64(p.Prompt), last: true})
		return err
	}
	for begin := int64(0); begin < p.Prompt; begin += chunk {
		n := min(chunk, p.Prompt-begin)
		add(batch, pass{requests: 1, tokens: float64(n), before: float64(begin), last: begin+n == p.Prompt})
	}
	return err
}

// pass prices a pass.
func (r *runner) pass(x pass) (price passPrice, err error) {
	parts := 1.
	if r.Prefill.Overlap && x.requests > 1 {
		parts = 2
	}
	all, requests := x.requests*x.tokens, x.requests/parts
	chunk := operator.Chunk{Tokens: int64(x.tokens), Before: int64(x.before)}
	load := operator.Load{Requests: requests, Again: all / parts, Pairs: requests * chunk.Pairs(), Selected: requests * chunk.Selected(r.Selection.TopK(r.Model))}
	price.embed = r.group.AllReduce(all)
	for _, kind := range r.kinds() {
		o, err := r.operators.Layer(kind.layer, &load)
		if err != nil {
			return price, err
		}
		l := layersPrice{number: float64(kind.number), kernels: parts * o.Again, network: 2 * r.group.AllReduce(all), least: parts * r.Engine.Launch(r.group != nil),
			transfers: r.passTransfers(x, kind.layer), overlaps: parts > 1, sms: exchangeSMs / float64(r.Machine.GPU.SMs.Value)}
		if kind.layer >= r.denseLayers() { // the exchange is nil without experts on other GPUs
			dispatch, combine := r.exchange.Seconds(all/parts, true)
			l.network += parts * (dispatch + combine)
		}
		price.layers = append(price.layers, l)
	}
	switch {
	case x.last:
		if price.kernels, err = r.operators.Output(x.requests); err != nil {
			return price, err
		}
		price.gather = r.group.GatherLogits(x.requests)
	case r.Engine != nil:
		price.kernels = r.Engine.Step
	}
	return price, nil
}

// passTransfers returns the longer of both directions of the link for a layer of a pass.
func (r *runner) passTransfers(x pass, layer int) float64 {
	entry, hosted, loaded := float64(r.Model.Entry.Value), 0., 0.
	switch {
	case r.kvpr != nil:
		hosted = r.kvpr.KV.Ratio()
	case r.ellm != nil:
		hosted = r.ellm.Hosted()
	case r.traits.Moves == schedule.MovesQueries:
		hosted = 1
	}
	if r.traits.Weights {
		loaded = r.Model.LayerBytes(layer, r.Experts)
	}
	seconds := func(path transfer.Path, bytes float64) float64 {
		if bytes < 1 {
			return 0
		}
		return path.Time(transfer.Request{Descriptors: 1, Bytes: int64(bytes), Launches: 1})
	}
	return max(seconds(r.store, hosted*entry*x.requests*x.tokens), seconds(r.fetch, loaded+hosted*entry*x.requests*x.before))
}
