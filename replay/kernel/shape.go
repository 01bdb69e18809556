package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Kind is the kind of a kernel. Each has its own formula.
type Kind int

// The kinds of kernels.
const (
	Product    Kind = iota // of an activation and a weight matrix
	Norm                   // RMS norm, with or without the residual sum
	Activation             // SwiGLU of two halves of a row
	Rope                   // rotary position embedding of queries and keys
	Embedding              // rows of the vocabulary's matrix
	Add                    // residual sum
	Sample                 // draw of a token from the logits
	Prefill                // attention of one chunk of a prompt
	Decode                 // attention of one query per sequence over a paged cache
	Experts                // routed experts of a layer: several kernels, see ExpertKernels
	Index                  // scores of a model's indexer over the cache, and their Top-K
	Sparse                 // attention of one query per sequence to selected entries of a latent cache
	Mixed                  // that of Decode in a call of FlashAttention 2 that also attends for prompts
)

// vectorised reports whether the time of a kind depends on Software.Vector.
func vectorised(k Kind) bool { return k == Norm || k == Activation || k == Embedding }

// Kernel is the shape of one call.
type Kernel struct {
	Kind   Kind
	Tokens float64 // rows of the input, sequences for Sample and Decode
	// Out is the number of columns of a product's output, the weights of one of Experts, or the heads of
	// Index and Sparse. Row kernels compute that many elements of a row.
	Out float64
	// In is the length of a product's sums, or the number of Experts that are chosen. Attention and Index
	// have the cached tokens of each sequence there, Sparse the selected ones.
	In float64
	// Bytes are those of one weight for a product, of the K and V of one token for attention, of its key
	// for Index. If several queries read them once, each has its part. Row kernels read and write Bytes
	// per row.
	Bytes    float64
	Passes   float64 // times that a row kernel goes over its row one after the other
	Heads    float64 // query heads of Prefill, Index, Sparse and Mixed
	HeadDim  float64 // of the same: elements of a key, in attention the mean of key and value
	Group    float64 // query heads that share a key, Mixed only
	TopK     float64 // tokens that each query selects, Index only
	Pairs    float64 // tokens and their experts, Experts only
	Hidden   float64 // elements of a token, Experts only
	Width    float64 // elements between the products of an expert, Experts only
	FP4      bool    // whether both operands of products are FP4
	Software Software
}

// half is the size of an activation in bytes.
const half = 2

// NewProduct returns the product of tokens × in activations and in × out weights.
func NewProduct(tokens, out, in, weightBytes float64) Kernel {
	return Kernel{Kind: Product, Tokens: tokens, Out: out, In: in, Bytes: weightBytes, Software: Current}
}

// NewNorm returns the norm of rows of some width. With add, the kernel also adds the residual.
func NewNorm(tokens, width float64, add bool) Kernel {
	k := Kernel{Kind: Norm, Tokens: tokens, Out: width, Bytes: 2 * half * width, Passes: 2, Software: Current}
	if add {
		k.Bytes *= 2
	}
	return k
}

// NewActivation returns SwiGLU with rows of some width.
func NewActivation(tokens, width float64) Kernel {
	return Kernel{Kind: Activation, Tokens: tokens, Out: width, Bytes: 3 * half * width, Passes: 1, Software: Current}
}

// NewRope returns the rotary embedding of rows with that many elements of queries and keys.
func NewRope(tokens, width float64) Kernel {
	return Kernel{Kind: Rope, Tokens: tokens, Out: width, Bytes: 2 * half * width, Passes: 1, Software: Current}
}

// NewAdd returns the residual sum of rows of some width.
func NewAdd(tokens, width float64) Kernel {
	return Kernel{Kind: Add, Tokens: tokens, Out: width, Bytes: 3 * half * width, Software: Current}
}

// NewEmbedding returns the look-up of rows of some width.
func NewEmbedding(tokens, width float64) Kernel {
	return Kernel{Kind: Embedding, Tokens: tokens, Out: width, Bytes: 2 * half * width, Software: Current}
}

// NewSample returns the draw of one token per sequence. The logits are in FP32.
func NewSample(sequences, vocabulary float64) Kernel {
	return Kernel{Kind: Sample, Tokens: sequences, Out: vocabulary, Bytes: 4 * vocabulary, Software: Current}
}

// NewDecode returns attention of one query per sequence over context cached tokens.
func NewDecode(sequences, context, entryBytes float64) Kernel {
	return Kernel{Kind: Decode, Tokens: sequences, Out: 1, In: context, Bytes: entryBytes, Software: Current}
}

// NewPrefill returns attention of a chunk of a prompt over itself and context cached tokens.
func NewPrefill(chunk, context, entryBytes, heads, headDim float64) Kernel {
	return Kernel{Kind: Prefill, Tokens: chunk, Out: 1, In: context, Bytes: entryBytes,
		Heads: heads, HeadDim: headDim, Software: Current}
}

// NewMixed returns the part of sequences that decode in a call that also attends for prompts. Each has
// context cached tokens. group is the number of query heads that share a key.
func NewMixed(sequences, context, entryBytes, heads, group, headDim float64) Kernel {
	return Kernel{Kind: Mixed, Tokens: sequences, Out: 1, In: context, Bytes: entryBytes,
		Heads: heads, Group: group, HeadDim: headDim, Software: Current}
}

// NewIndex returns the scores of a model's indexer, and their Top-K. Each query scores context cached
// tokens, with keys of entryBytes.
func NewIndex(queries, context, entryBytes, heads, headDim, topK float64) Kernel {
	return Kernel{Kind: Index, Tokens: queries, Out: heads, In: context, Bytes: entryBytes,
		Heads: heads, HeadDim: headDim, TopK: topK, Software: Current}
}

// NewSparse returns attention of queries to some selected entries of a latent cache each. width is the
// mean of the elements of an entry that make a score and a value.
func NewSparse(queries, selected, entryBytes, heads, width float64) Kernel {
	return Kernel{Kind: Sparse, Tokens: queries, Out: heads, In: selected, Bytes: entryBytes,
		Heads: heads, HeadDim: width, Software: Current}
}

// ExpertKernels is the number of kernels of Experts in vLLM: two group pairs by expert, two multiply,
// one is the activation, and one adds the outputs of a token's experts.
const ExpertKernels = 6

// NewExperts returns the routed experts of a layer. Tokens and their experts make pairs. Some experts
// are chosen, and each multiplies with matrices of width × hidden weights.
func NewExperts(tokens, pairs, chosen, hidden, width, matrices, weightBytes float64) Kernel {
	return Kernel{Kind: Experts, Tokens: tokens, Out: matrices * width * hidden, In: chosen, Bytes: weightBytes,
		Pairs: pairs, Hidden: hidden, Width: width, Software: Current}
}

// dims are the widths of a model on one of several GPUs.
type dims struct {
	hidden, query, kv, ffn, vocabulary, headDim, entry, weight, head float64
	active, expert, matrices                                         float64 // of routed experts
	index                                                            *hardware.Indexer
	latentEntry, latentWidth                                         float64 // of a latent cache
}

// operators build the kernel of a measurement.
var operators = map[string]func(m *Measurement, d dims) Kernel{
	"qkv_proj":   func(m *Measurement, d dims) Kernel { return NewProduct(m.rows(), d.query+2*d.kv, d.hidden, d.weight) },
	"out_proj":   func(m *Measurement, d dims) Kernel { return NewProduct(m.rows(), d.hidden, d.query, d.weight) },
	"up_proj":    func(m *Measurement, d dims) Kernel { return NewProduct(m.rows(), 2*d.ffn, d.hidden, d.weight) },
	"down_proj":  func(m *Measurement, d dims) Kernel { return NewProduct(m.rows(), d.hidden, d.ffn, d.weight) },
	"lm_head":    func(m *Measurement, d dims) Kernel { return NewProduct(m.rows(), d.vocabulary, d.hidden, d.head) },
	"norm":       func(m *Measurement, d dims) Kernel { return NewNorm(m.rows(), d.hidden, false) },
	"add_norm":   func(m *Measurement, d dims) Kernel { return NewNorm(m.rows(), d.hidden, true) },
	"activation": func(m *Measurement, d dims) Kernel { return NewActivation(m.rows(), d.ffn) },
	"rope":       func(m *Measurement, d dims) Kernel { return NewRope(m.rows(), d.query+d.kv) },
	"add":        func(m *Measurement, d dims) Kernel { return NewAdd(m.rows(), d.hidden) },
	"embedding":  func(m *Measurement, d dims) Kernel { return NewEmbedding(m.rows(), d.hidden) },
	"sampler":    func(m *Measurement, d dims) Kernel { return NewSample(m.rows(), d.vocabulary) },
	"attention_prefill": func(m *Measurement, d dims) Kernel {
		return NewPrefill(m.rows(), float64(m.Context), d.entry, d.query/d.headDim, d.headDim)
	},
	"attention_decode": func(m *Measurement, d dims) Kernel {
		return NewDecode(float64(m.Sequences), float64(m.Context), d.entry)
	},
	"experts": func(m *Measurement, d dims) Kernel {
		pairs := m.rows() * d.active / float64(m.TensorParallel)
		return NewExperts(m.rows(), pairs, float64(m.Sequences), d.hidden, d.expert, d.matrices, d.weight)
	},
	"indexer": func(m *Measurement, d dims) Kernel {
		return NewIndex(m.rows(), float64(m.Context), float64(d.index.Entry.Value),
			float64(d.index.Heads.Value), float64(d.index.HeadDim.Value), float64(d.index.TopK.Value))
	},
	"attention_sparse": func(m *Measurement, d dims) Kernel {
		selected := min(float64(m.Context), float64(d.index.TopK.Value))
		return NewSparse(m.rows(), selected, d.latentEntry, d.query/d.headDim, d.latentWidth)
	},
}

// indexed are the operators of models with an indexer.
var indexed = []string{"indexer", "attention_sparse"}

// feedForward are the operators of a dense feed-forward network.
var feedForward = []string{"up_proj", "activation", "down_proj"}

// Operators returns the names of the operators, sorted.
func Operators() []string { return slices.Sorted(maps.Keys(operators)) }

func (m *Measurement) rows() float64 { return float64(m.Tokens) }

// Kernel returns the shape of a measurement. Heads and widths are divided among the GPUs. A GPU
// has at least one KV head.
func (m *Measurement) Kernel(model *hardware.Model) (Kernel, error) {
	tp := float64(m.TensorParallel)
	heads, kv, dim := float64(model.QueryHeads.Value), float64(model.KVHeads.Value), float64(model.HeadDim.Value)
	switch {
	case slices.Contains(indexed, m.Operator) && (model.Indexer == nil || model.Latent == nil):
		return Kernel{}, fmt.Errorf("model %s has no indexer: measure a model with it, as deepseek-v3.2", model.Name)
	case slices.Contains(indexed, m.Operator) && m.Context < 1:
		return Kernel{}, fmt.Errorf("context is 0: state the cached tokens of %s", m.Operator)
	case model.Latent != nil && !slices.Contains(indexed, m.Operator):
		return Kernel{}, fmt.Errorf("model %s has latent attention: measure only %s of it, or another model",
			model.Name, strings.Join(indexed, " and "))
	case model.MoE != nil && slices.Contains(feedForward, m.Operator):
		return Kernel{}, fmt.Errorf("model %s has routed experts: %s is of dense models", model.Name, m.Operator)
	case model.MoE == nil && m.Operator == "experts":
		return Kernel{}, fmt.Errorf("model %s has no routed experts", model.Name)
	case m.Operator == "experts" && (m.Sequences < 1 || float64(m.Sequences) > float64(model.MoE.Experts.Value)/tp):
		return Kernel{}, fmt.Errorf("sequences is %d: state how many of %s's %g experts a GPU computes", m.Sequences,
			model.Name, float64(model.MoE.Experts.Value))
	case tp > heads:
		return Kernel{}, fmt.Errorf("tensor_parallel %d exceeds the %g query heads of %s",
			m.TensorParallel, heads, model.Name)
	case m.Operator == "attention_decode" && m.Sequences < 1:
		return Kernel{}, fmt.Errorf("sequences is 0: state the number of sequences of %s", m.Operator)
	case m.Operator == "attention_prefill" && m.Sequences > 1:
		return Kernel{}, fmt.Errorf("sequences is %d: measure %s with the chunk of one sequence", m.Sequences, m.Operator)
	}
	kv = max(1, kv/tp)
	d := dims{
		hidden: float64(model.Hidden.Value), query: heads * dim / tp, kv: kv * dim, ffn: float64(model.FFN.Value) / tp,
		vocabulary: float64(model.Vocabulary.Value) / tp, headDim: dim, entry: float64(model.EntryPerHead()) * kv,
		weight: float64(model.BytesPerParameter.Value), head: model.WeightBytes(hardware.Plain), matrices: float64(model.FFNMatrices.Value),
	}
	if e := model.MoE; e != nil {
		d.active, d.expert = float64(e.Active.Value), float64(e.FFN.Value)
	}
	if l := model.Latent; l != nil {
		d.index, d.latentEntry = model.Indexer, float64(model.Entry.Value)
		d.latentWidth = float64(l.KVRank.Value) + float64(l.Rope.Value)/2
	}
	k := operators[m.Operator](m, d)
	k.Software = softwareOf(m.Software)
	return k, nil
}
