package operator

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// Fitted prices operators by the kernel model: launches, tiles and waves of products, norms, rotary
// embedding, activation and sampling count. Selections without an indexer and lookups are the roofline's.
type Fitted struct {
	roofline  *Roofline
	estimator *kernel.Estimator
	sampled   float64                   // logits of a query that the sampler reads
	gap       float64                   // idle time after a kernel, in seconds
	apart     bool                      // of Engine
	busiest   float64                   // tokens of the busiest GPU of routed experts ÷ mean
	known     map[kernel.Kernel]float64 // times of earlier calls
	layers    map[layerKey]layerKernels // of earlier calls
	outputs   map[float64]float64       // by queries, of earlier calls
}

// mostKnown bounds the memory of earlier calls, of each kind.
const mostKnown = 1 << 16

// remembered returns the value of a key that is known, or computes it.
func remembered[K comparable, V any](known map[K]V, key K, compute func() V) V {
	if v, ok := known[key]; ok {
		return v
	}
	if len(known) >= mostKnown {
		clear(known)
	}
	v := compute()
	known[key] = v
	return v
}

// layerKernels are the times of the kernels of a layer that depend on the number of its tokens alone, in seconds.
type layerKernels struct {
	before, second, out, around, feedForward float64
}

// layerKey identifies layerKernels. Layers without routed experts are alike, and so are those with them.
type layerKey struct {
	tokens, expertTokens float64
	routed               bool
}

// NewFitted returns the kernel model of a GPU for the roofline's model.
func NewFitted(r *Roofline, e *kernel.Estimator) *Fitted {
	f := &Fitted{roofline: r, estimator: e, busiest: r.Busiest(), sampled: float64(r.Model.Vocabulary.Value), known: map[kernel.Kernel]float64{}, layers: map[layerKey]layerKernels{}, outputs: map[float64]float64{}}
	if r.Group != nil {
		f.sampled = r.Group.Vocabulary
	}
	if r.Engine != nil {
		f.gap, f.apart = r.Engine.Gap, r.Engine.Apart
	}
	return f
}

// Notes returns the assumptions.
func (f *Fitted) Notes() []string {
	d := f.estimator.Device
	var mine, others []string
	for _, g := range []struct {
		kind kernel.Kind
		name string
	}{
		{kernel.Product, "products"}, {kernel.Norm, "norms and activation"},
		{kernel.Decode, "attention"}, {kernel.Sample, "sampling"},
		{kernel.Experts, "routed experts"}, {kernel.Index, "indexer"}, {kernel.Sparse, "sparse attention"},
	} {
		if g.kind == kernel.Experts && f.roofline.Model.MoE == nil || g.kind >= kernel.Index && !f.indexes() {
			continue
		}
		if f.estimator.Measured(g.kind) {
			mine = append(mine, g.name)
		} else {
			others = append(others, g.name)
		}
	}
	note := "kernels:"
	if len(mine) > 0 {
		note += fmt.Sprintf(" fitted to measurements of %s: %s;", d.Name, strings.Join(mine, ", "))
	}
	if len(others) > 0 {
		note += fmt.Sprintf(" not measured on %s, by constants of other GPUs: %s;", d.Name, strings.Join(others, ", "))
	}
	if f.indexes() {
		return append([]string{note + " lookups are the roofline's"}, d.Notes...)
	}
	return append([]string{note + " selection and lookups are the roofline's"}, d.Notes...)
}

// indexes reports whether the model's indexer selects the entries of a latent cache.
func (f *Fitted) indexes() bool {
	return f.roofline.Selection.TopK(f.roofline.Model) > 0 && f.roofline.Model.Latent != nil
}

// once returns the time of a kernel and of the gap after it.
func (f *Fitted) once(k kernel.Kernel) float64 {
	if k.Tokens <= 0 {
		return 0
	}
	return f.estimator.Seconds(k) + f.gap
}

// seconds is once for kernels whose shapes return often.
func (f *Fitted) seconds(k kernel.Kernel) float64 {
	return remembered(f.known, k, func() float64 { return f.once(k) })
}

// products returns the time to multiply tokens with each of some matrices of a part.
func (f *Fitted) products(tokens float64, part hardware.Part, all []matrix) (sum float64) {
	model := f.roofline.Model
	return slice.Sum(all, func(m matrix) float64 {
		k := kernel.NewProduct(tokens, m.out, m.in, model.WeightBytes(part))
		k.FP4 = model.FP4(part)
		return f.seconds(k)
	})
}

// Layer prices one layer's operators.
func (f *Fitted) Layer(layer int, l *Load) (o Times, err error) {
	if o, err = f.roofline.Layer(layer, l); err != nil {
		return o, err
	}
	m := f.roofline.Model
	k := f.kernels(layer, l.Queries, l.routed())
	o.Project, o.Pre, o.Post = k.before, k.second, k.out+k.around+k.feedForward
	if f.indexes() {
		o.Select, o.Attend = f.index(l), f.sparse(l)
	} else {
		if s := f.roofline.Selection; l.Context > l.Requests*float64(s.Tokens) { // with one group there is nothing to select
			o.Select += f.launches(s.kernels())
		}
		o.Attend = f.attention(l.Requests, l.Attended, l.Bytes)
	}
	attend := f.attention
	if len(l.Chunks) > 0 && f.mixes() {
		attend = f.mixed
	}
	o.AttendAll = attend(l.Requests, l.Scored, l.Context*float64(m.Entry.Value))
	o.AttendAll += f.unequal(l, o.AttendAll, attend)
	if l.Remade && l.Context > 0 { // a share of the product of all positions
		hidden := float64(m.Hidden.Value)
		all := f.products(l.Context, hardware.Attention, []matrix{{m.KeyValueParameters() / hidden, hidden}})
		o.Recompute = all * l.Requests / l.Context
	}
	o.AttendChunks = 0
	for i, c := range l.Chunks { // one kernel, which is launched once
		o.AttendChunks += f.prompts(f.causal(1, float64(c.Tokens), c.Pairs()), c.Pairs(), c.Selected(f.roofline.Selection.TopK(f.roofline.Model)), float64(c.Tokens+c.Before))
		if i > 0 {
			o.AttendChunks -= f.estimator.Launch(kernel.Prefill) + f.gap
		}
	}
	if l.Again > 0 {
		k := f.kernels(layer, l.Again, l.Again)
		o.Again = k.before + k.second + k.out + k.around + k.feedForward + f.prompts(f.causal(l.Requests, l.Again, l.Pairs), l.Pairs, l.Selected, l.Again)
	}
	return o, nil
}

// launches returns the fixed time of some kernels, with the gaps after them.
func (f *Fitted) launches(kernels float64) float64 {
	return kernels * (f.estimator.Launch(kernel.Norm) + f.gap)
}

// kernels prices the kernels of a layer that depend on the number of its tokens alone. expertTokens is
// the number of tokens whose routed experts this GPU runs.
func (f *Fitted) kernels(layer int, tokens, expertTokens float64) layerKernels {
	r := f.roofline
	stored, active := r.Model.FFNParameters(layer)
	return remembered(f.layers, layerKey{tokens, expertTokens, stored != active}, func() layerKernels {
		around := f.seconds(kernel.NewNorm(tokens, float64(r.Model.Hidden.Value), true))
		return layerKernels{
			before: around + f.products(tokens, hardware.Attention, r.first) + f.innerNorms(tokens) + f.seconds(kernel.NewRope(tokens, rotated(r.Model))),
			second: f.products(tokens, hardware.Attention, r.second), out: f.products(tokens, hardware.Attention, r.out), around: around,
			feedForward: f.feedForward(layer, tokens, expertTokens),
		}
	})
}

// innerNorms returns the time of the norms between projections and attention: of queries and keys by
// head, or of the latents.
func (f *Fitted) innerNorms(tokens float64) (sum float64) {
	m := f.roofline.Model
	norm := func(rows, width float64) {
		if rows*width > 0 {
			sum += f.seconds(kernel.NewNorm(rows, width, false))
		}
	}
	if l := m.Latent; l != nil {
		norm(tokens, float64(l.KVRank.Value))
		norm(tokens, float64(l.QueryRank.Value))
	} else if m.QKNorm {
		norm(tokens*float64(m.QueryHeads.Value), float64(m.HeadDim.Value))
		norm(tokens*float64(m.KVHeads.Value), float64(m.HeadDim.Value))
	}
	return sum
}

// attention returns the time of decode attention. Several queries of a request read its cache once,
// and arithmetic may then take longer.
func (f *Fitted) attention(requests, attended, bytes float64) float64 {
	if requests <= 0 || bytes <= 0 {
		return 0
	}
	entry := float64(f.roofline.Model.Entry.Value)
	read := f.once(kernel.NewDecode(requests, bytes/requests/entry, entry))
	return max(read, f.estimator.Launch(kernel.Decode)+f.roofline.attention(attended, 0))
}

// mixes reports whether requests that decode attend in the kernel of prompts. Latent attention has a form of
// its own for each.
func (f *Fitted) mixes() bool {
	return f.estimator.Device.FlashAttention2 && !f.apart && f.roofline.Model.Latent == nil
}

// mixed is attention in the kernel of prompts, without its launch.
func (f *Fitted) mixed(requests, _, bytes float64) float64 {
	if requests <= 0 || bytes <= 0 {
		return 0
	}
	m := f.roofline.Model
	heads, entry := float64(m.QueryHeads.Value), float64(m.Entry.Value)
	return f.estimator.Seconds(kernel.NewMixed(requests, bytes/requests/entry-1, entry, heads, heads/float64(m.KVHeads.Value), causalWidth(m)/2))
}

// index returns the time of the model's indexer. Queries of a request read its keys once.
func (f *Fitted) index(l *Load) float64 {
	queries := l.decoding()
	if queries <= 0 || l.Scored <= 0 {
		return 0
	}
	i := f.roofline.Model.Indexer
	return f.once(kernel.NewIndex(queries, l.Scored/queries, float64(i.Entry.Value)*l.Context/l.Scored,
		float64(i.Heads.Value), float64(i.HeadDim.Value), float64(i.TopK.Value)))
}

// sparseShare is the share of the fastest product's rate that attention to selected latent entries reaches on
// GPUs where it is not measured. The README of https://github.com/deepseek-ai/FlashMLA states 410 TFLOP/s
// for its sparse decoding kernel on H800. The fastest measured product of an H100, the same chip, has 794.5.
const sparseShare = 410 / 794.5

// sparse returns the time of attention to the entries that the indexer selects.
func (f *Fitted) sparse(l *Load) float64 {
	queries := l.decoding()
	if queries <= 0 || l.Attended <= 0 {
		return 0
	}
	if !f.estimator.Measured(kernel.Sparse) {
		arithmetic := f.estimator.Launch(kernel.Decode) + f.roofline.attention(l.Attended, 0)/sparseShare
		return max(f.attention(l.Requests, l.Attended, l.Bytes), arithmetic)
	}
	m := f.roofline.Model
	width := float64(m.Latent.KVRank.Value) + float64(m.Latent.Rope.Value)/2
	return f.once(kernel.NewSparse(queries, l.Attended/queries, l.Bytes/l.Attended, float64(m.QueryHeads.Value), width))
}

// Decode attention ends with its longest context. Its extra time is a share of the extra time of a batch in
// which all contexts are the longest. Next to parts of
// prompts the share is tailRequests ÷ requests, and otherwise unequalShare. Both are medians of shares that
// were measured with vLLM on RTX 4090 and RTX PRO 6000, for Llama 3.1 8B. A test has them.
const (
	tailRequests = 2.5
	unequalShare = 0.021
)

// unequal returns the time of attention beyond that of equal contexts, by the price of equal ones.
func (f *Fitted) unequal(l *Load, equal float64, price func(requests, attended, bytes float64) float64) float64 {
	all := l.Longest * l.Requests
	if all <= l.Context {
		return 0
	}
	share := unequalShare
	if len(l.Chunks) > 0 {
		share = min(1, tailRequests/l.Requests)
	}
	return share * max(0, price(l.Requests, l.Scored*all/l.Context, all*float64(f.roofline.Model.Entry.Value))-equal)
}

// causal returns the time of attention of some tokens of requests. Each token attends to the tokens
// before it, which are pairs together. Requests are equal, and so are one kernel with all their
// heads.
func (f *Fitted) causal(requests, tokens, pairs float64) float64 {
	m := f.roofline.Model
	each := tokens / requests
	before := max(0, pairs/tokens-(each+1)/2)
	return f.once(kernel.NewPrefill(each, before, float64(m.Entry.Value)*requests, float64(m.QueryHeads.Value)*requests, causalWidth(m)/2))
}

// prompts is that of the roofline, with the launch of attention in the latent space.
func (f *Fitted) prompts(dense, pairs, selected, tokens float64) float64 {
	launch := 0.
	if f.roofline.Selection.TopK(f.roofline.Model) > 0 && selected < pairs {
		launch = f.estimator.Launch(kernel.Prefill) + f.gap
	}
	return launch + f.roofline.prompts(dense, pairs, selected, tokens)
}

// feedForward returns the time of a layer's FFN. With routed experts, kernels before it choose those
// of each token (fused_experts of vLLM and SGLang). expertTokens is the number
// of tokens whose routed experts this GPU runs.
func (f *Fitted) feedForward(layer int, tokens, expertTokens float64) float64 {
	m := f.roofline.Model
	if stored, active := m.FFNParameters(layer); stored == active {
		return f.dense(tokens, float64(m.FFN.Value))
	}
	e, hidden := m.MoE, float64(m.Hidden.Value)
	all, wide := float64(e.Experts.Value), float64(e.FFN.Value)
	sum := f.products(tokens, hardware.Plain, []matrix{{all, hidden}}) + f.seconds(kernel.NewNorm(tokens, all, false))
	if shared := float64(e.Shared.Value); shared > 0 {
		sum += f.dense(tokens, shared*wide) + f.seconds(kernel.NewAdd(tokens, hidden))
	}
	experts := kernel.NewExperts(expertTokens, f.busiest*expertTokens*float64(e.Active.Value), f.roofline.touched(expertTokens), hidden, wide,
		float64(m.FFNMatrices.Value), m.WeightBytes(hardware.Experts))
	experts.FP4 = m.FP4(hardware.Experts)
	return sum + f.seconds(experts) + (kernel.ExpertKernels-1)*f.gap
}

// dense returns the time of an FFN of some width.
func (f *Fitted) dense(tokens, wide float64) float64 {
	hidden := float64(f.roofline.Model.Hidden.Value)
	return f.products(tokens, hardware.FFN, []matrix{{upMatrices(f.roofline.Model) * wide, hidden}, {hidden, wide}}) +
		f.seconds(kernel.NewActivation(tokens, wide))
}

// upMatrices is the number of matrices in front of the activation.
func upMatrices(m *hardware.Model) float64 { return float64(m.FFNMatrices.Value) - 1 }

// Output returns the time of the last norm, the projection to the vocabulary, and the sampler.
func (f *Fitted) Output(queries float64) (float64, error) {
	return remembered(f.outputs, queries, func() float64 {
		m := f.roofline.Model
		hidden, words := float64(m.Hidden.Value), float64(m.Vocabulary.Value)
		return f.seconds(kernel.NewNorm(queries, hidden, true)) + f.products(queries, hardware.Plain, []matrix{{words, hidden}}) +
			f.seconds(kernel.NewSample(queries, f.sampled))
	}), nil
}

// rotated returns the elements of a token's queries and keys that the rotary embedding turns.
func rotated(m *hardware.Model) float64 {
	if m.Latent != nil {
		return (float64(m.QueryHeads.Value) + 1) * float64(m.Latent.Rope.Value)
	}
	return float64(m.QueryHeads.Value+m.KVHeads.Value) * float64(m.HeadDim.Value)
}
