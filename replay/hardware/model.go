package hardware

// Model is the shape of a decoder, which determines the bytes and the arithmetic of a token.
type Model struct {
	Header
	Layers     Fact[Number] `yaml:"layers" most:"1e4"`
	Hidden     Fact[Number] `yaml:"hidden_size" most:"1e7"`
	QueryHeads Fact[Number] `yaml:"query_heads" most:"1e7"`
	KVHeads    Fact[Number] `yaml:"kv_heads" most:"1e7"`
	HeadDim    Fact[Number] `yaml:"head_dim" most:"1e7"`
	// FFN is the width of a dense feed-forward layer. FFNMatrices is the number of its hidden × FFN
	// matrices: 3 with a gate, 2 without.
	FFN         Fact[Number] `yaml:"ffn_size" most:"1e7"`
	FFNMatrices Fact[Number] `yaml:"ffn_matrices" most:"3"`
	Vocabulary  Fact[Number] `yaml:"vocabulary" most:"1e7"`
	// Positions is the number of learned position embeddings, 0 with rotary ones.
	Positions Fact[Number] `yaml:"learned_positions" need:"no" zero:"ok" most:"1e9"`
	Context   Fact[Number] `yaml:"context" most:"1e9"` // tokens
	Tied      bool         `yaml:"tied_embeddings"`
	// Biases and norms: additive vectors on projections (OPT), Q and K norms (Qwen3).
	Bias    bool     `yaml:"biases" need:"no"`
	QKNorm  bool     `yaml:"qk_norm" need:"no"`
	Latent  *Latent  `yaml:"latent" need:"no"`  // multi-head latent attention
	MoE     *MoE     `yaml:"moe" need:"no"`     // mixture of experts
	Indexer *Indexer `yaml:"indexer" need:"no"` // DeepSeek sparse attention
	// Entry is the cached KV of one token in one layer, all KV heads, as served. It excludes the
	// indexer's keys.
	Entry Fact[Bytes] `yaml:"entry"`
	// BytesPerParameter is the size of the weights as served. Below 2 B they are quantised, except for
	// those that Part calls plain.
	BytesPerParameter Fact[Bytes] `yaml:"bytes_per_parameter"`
	// NVFP4 is set if quantised weights, and the activations that they multiply, are NVFP4. A weight then
	// has 4.5 bits with its part of a scale.
	NVFP4 bool `yaml:"nvfp4" need:"no"`
	// ScaleBlock is the number of quantised weights that share a scale.
	ScaleBlock Fact[Number] `yaml:"scale_block" need:"no" most:"1e9"`
	// Parameters is the published number, all experts included.
	Parameters Fact[Number] `yaml:"parameters" most:"1e15"`

	kept [parts]float64 // share of a part's weights that the checkpoint does not quantise
}

// Latent is multi-head latent attention: keys and values of all heads from one vector.
type Latent struct {
	KVRank    Fact[Number] `yaml:"kv_rank" most:"1e7"`
	QueryRank Fact[Number] `yaml:"query_rank" zero:"ok" most:"1e7"` // 0 if queries are not factored
	Rope      Fact[Number] `yaml:"rope_dim" most:"1e7"`
	NoPE      Fact[Number] `yaml:"nope_dim" most:"1e7"`
	Value     Fact[Number] `yaml:"value_dim" most:"1e7"`
}

// MoE replaces the feed-forward layers after the first DenseLayers.
type MoE struct {
	Experts     Fact[Number] `yaml:"experts" most:"1e7"`
	Active      Fact[Number] `yaml:"active" most:"1e7"` // routed experts per token, without shared ones
	Shared      Fact[Number] `yaml:"shared" zero:"ok" most:"1e7"`
	FFN         Fact[Number] `yaml:"ffn_size" most:"1e7"` // width of one expert
	DenseLayers Fact[Number] `yaml:"dense_layers" zero:"ok" most:"1e4"`
}

// Indexer selects the Top-K tokens that attention reads.
type Indexer struct {
	Heads   Fact[Number] `yaml:"heads" most:"1e7"`
	HeadDim Fact[Number] `yaml:"head_dim" most:"1e7"`
	TopK    Fact[Number] `yaml:"topk" most:"1e9"`
	Entry   Fact[Bytes]  `yaml:"entry"` // key of one token in one layer
}

func (m *Model) check(f *faults) {
	if q, kv := m.QueryHeads.Value, m.KVHeads.Value; kv > q || q/kv != Number(int(q/kv)) {
		f.at("query_heads", "%s is not a multiple of kv_heads %s", m.QueryHeads.Written, m.KVHeads.Written)
	}
	if size := m.BytesPerParameter.Value; m.NVFP4 && size != NVFP4Bytes {
		f.at("bytes_per_parameter", "%s, expected %g B with nvfp4", m.BytesPerParameter.Written, NVFP4Bytes)
	}
	if n := m.FFNMatrices.Value; n != 2 && n != 3 {
		f.at("ffn_matrices", "%s, expected 2 or 3", m.FFNMatrices.Written)
	}
	if e := m.MoE; e != nil {
		atMost(f, "moe.dense_layers", &e.DenseLayers, "layers", &m.Layers)
		atMost(f, "moe.active", &e.Active, "moe.experts", &e.Experts)
	}
}

// EntryPerHead returns the cached KV of one token in one layer and KV head, in bytes. With latent
// attention all heads share one entry.
func (m *Model) EntryPerHead() Bytes {
	if m.Latent != nil {
		return m.Entry.Value
	}
	return m.Entry.Value / Bytes(m.KVHeads.Value)
}

// KeyHeads returns the number of key heads, 1 if all heads share a latent vector.
func (m *Model) KeyHeads() float64 {
	if m.Latent != nil {
		return 1
	}
	return float64(m.KVHeads.Value)
}

// KeyDim returns the numbers of a key in one key head.
func (m *Model) KeyDim() float64 {
	if m.Latent != nil {
		return float64(m.Latent.KVRank.Value + m.Latent.Rope.Value)
	}
	return float64(m.HeadDim.Value)
}

// CachesKeysAndValues reports whether the entry of a token is K and V in FP16.
func (m *Model) CachesKeysAndValues() bool {
	return m.Latent == nil && float64(m.Entry.Value) == 2*HalfBytes*m.KeyHeads()*m.KeyDim()
}

// Part is a part of a model whose weights have one size.
type Part int

// The parts. A quantised checkpoint keeps plain weights in 16 bits: embeddings, the output matrix, norms,
// biases, routers, and the indexer's weights of its heads.
const (
	Plain Part = iota
	Attention
	FFN     // of dense layers, and shared experts
	Experts // routed ones
	parts
)

// Weights are numbers of weights by part.
type Weights [parts]float64

// Sum returns the number of all weights.
func (w Weights) Sum() (sum float64) {
	for _, n := range w {
		sum += n
	}
	return sum
}

// Plus returns the sum of both for each part.
func (w Weights) Plus(o Weights) Weights {
	for p := range w {
		w[p] += o[p]
	}
	return w
}

// HalfBytes is the size of a number in FP16 or BF16.
const HalfBytes = 2

// plainBytes is the size of a weight that is not quantised.
const plainBytes = 2

// NVFP4Bytes is the size of an NVFP4 weight: 4 bits, and an FP8 scale for each 16 weights.
const NVFP4Bytes = 0.5 + 1./16

// WeightBytes returns the bytes of a weight of a part, without scales. If a checkpoint quantises some
// layers of the part, it is the size in most layers.
func (m *Model) WeightBytes(p Part) float64 {
	size := float64(m.BytesPerParameter.Value)
	if m.unquantised(p) > 0.5 {
		return max(size, plainBytes)
	}
	return size
}

// FP4 reports whether products with weights of a part have operands of FP4.
func (m *Model) FP4(p Part) bool { return m.NVFP4 && m.WeightBytes(p) < 1 }

// Bytes returns the size of weights in memory, with the scales of quantised ones.
func (m *Model) Bytes(w Weights) (sum float64) {
	size := float64(m.BytesPerParameter.Value)
	for p, n := range w {
		plain := m.unquantised(Part(p))
		sum += n * (plain*max(size, plainBytes) + (1-plain)*(size+m.scale()))
	}
	return sum
}

// unquantised returns the share of a part's weights that a quantised checkpoint keeps in 16 bits.
func (m *Model) unquantised(p Part) float64 {
	if p == Plain {
		return 1
	}
	return m.kept[p]
}

// scale returns the bytes of scales for each quantised weight. A scale of FP8 weights is FP32. Fewer bits
// have a scale in FP16 and a zero point of their own size (AWQ, GPTQ).
func (m *Model) scale() float64 {
	switch size := float64(m.BytesPerParameter.Value); {
	case m.ScaleBlock.Value == 0:
		return 0
	case size == 1:
		return 4 / float64(m.ScaleBlock.Value)
	default:
		return (plainBytes + size) / float64(m.ScaleBlock.Value)
	}
}

// AttentionParameters returns the weights of one layer's attention: projections, latent factors,
// indexer.
func (m *Model) AttentionParameters() (w Weights) {
	h, q, kv, d := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value), float64(m.HeadDim.Value)
	if m.Latent == nil {
		w[Attention] = h*d*(q+2*kv) + q*d*h
		if m.Bias {
			w[Plain] += d*(q+2*kv) + h
		}
		if m.QKNorm {
			w[Plain] += 2 * d
		}
		return w
	}
	l := m.Latent
	rank, rope, nope, value := float64(l.KVRank.Value), float64(l.Rope.Value), float64(l.NoPE.Value), float64(l.Value.Value)
	w[Attention] = h*(rank+rope) + rank*q*(nope+value) + q*value*h // down, up, out
	w[Plain] = rank                                                // norm of the latent
	if r := float64(l.QueryRank.Value); r > 0 {
		w[Attention] += h*r + r*q*(nope+rope)
		w[Plain] += r
	} else {
		w[Attention] += h * q * (nope + rope)
	}
	return w.Plus(m.indexerParameters())
}

// KeyValueParameters returns the number of weights that compute K and V of a token, or its latent
// vector, in one layer.
func (m *Model) KeyValueParameters() float64 {
	h := float64(m.Hidden.Value)
	if m.Latent != nil {
		return h * m.KeyDim()
	}
	return 2 * h * m.KeyHeads() * m.KeyDim()
}

// DefaultTopK returns K, the tokens that a head selects in a step, if a user states none. It is the Top-K of the
// indexer, or a 64th of the context without one (KVDrive, section 6.1: 1.56 %). It is at most the context, and
// at least 1.
func (m *Model) DefaultTopK(context int64) int {
	k := context / 64
	if m.Indexer != nil {
		k = int64(m.Indexer.TopK.Value)
	}
	return int(max(1, min(k, context)))
}

// indexerParameters returns the indexer's weights: queries from the factored query, one key with a
// LayerNorm, and a weight per head (DeepSeek-V3.2-Exp, inference code).
func (m *Model) indexerParameters() (w Weights) {
	if m.Indexer == nil {
		return w
	}
	hidden, heads, dim := float64(m.Hidden.Value), float64(m.Indexer.Heads.Value), float64(m.Indexer.HeadDim.Value)
	w[Attention] = float64(m.Latent.QueryRank.Value)*heads*dim + hidden*dim
	w[Plain] = hidden*heads + 2*dim
	return w
}

// FFNParameters returns the feed-forward weights of layer i: all that are stored, and those that
// one token uses.
func (m *Model) FFNParameters(i int) (stored, active Weights) {
	h, matrices := float64(m.Hidden.Value), float64(m.FFNMatrices.Value)
	if m.MoE == nil || i < int(m.MoE.DenseLayers.Value) {
		stored[FFN] = matrices * h * float64(m.FFN.Value)
		if m.Bias {
			stored[Plain] = h + float64(m.FFN.Value)
		}
		return stored, stored
	}
	e := m.MoE
	expert := matrices * h * float64(e.FFN.Value)
	stored[FFN], stored[Plain] = expert*float64(e.Shared.Value), h*float64(e.Experts.Value) // the latter is the router
	if m.Indexer != nil {                                                                   // the router of DeepSeek-V3 has a bias per expert
		stored[Plain] += float64(e.Experts.Value)
	}
	active = stored
	stored[Experts], active[Experts] = expert*float64(e.Experts.Value), expert*float64(e.Active.Value)
	return stored, active
}

// EmbeddingParameters returns the plain weights of embeddings, learned positions and the output matrix.
func (m *Model) EmbeddingParameters() (w Weights) {
	matrices := 2.0
	if m.Tied {
		matrices = 1
	}
	w[Plain] = float64(m.Hidden.Value) * (matrices*float64(m.Vocabulary.Value) + float64(m.Positions.Value))
	return w
}

// CountParameters counts the weights that the shape implies, norms included.
func (m *Model) CountParameters() float64 {
	layers, h := int(m.Layers.Value), float64(m.Hidden.Value)
	norm := h
	if m.Bias { // LayerNorm also has a bias
		norm = 2 * h
	}
	total := m.EmbeddingParameters().Sum() + norm
	for i := range layers {
		stored, _ := m.FFNParameters(i)
		total += m.AttentionParameters().Plus(stored).Sum() + 2*norm
	}
	return total
}

// LayerBytes returns the bytes of a layer's weights on one of some GPUs that share the routed experts.
func (m *Model) LayerBytes(layer, expertGPUs int) float64 {
	stored, _ := m.FFNParameters(layer)
	stored[Experts] /= float64(max(1, expertGPUs))
	return m.Bytes(m.AttentionParameters().Plus(stored))
}

// GPUBytes returns the bytes of all weights on one of some GPUs that share the routed experts,
// embeddings included.
func (m *Model) GPUBytes(expertGPUs int) float64 {
	sum := m.Bytes(m.EmbeddingParameters())
	for i := range int(m.Layers.Value) {
		sum += m.LayerBytes(i, expertGPUs)
	}
	return sum
}
