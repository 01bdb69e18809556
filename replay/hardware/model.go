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
	// BytesPerParameter is the size of the weights as served.
	BytesPerParameter Fact[Bytes] `yaml:"bytes_per_parameter"`
	// Parameters is the published number, all experts included.
	Parameters Fact[Number] `yaml:"parameters" most:"1e15"`
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

// AttentionParameters returns the number of weights of one layer's attention: projections, latent
// factors, indexer.
func (m *Model) AttentionParameters() float64 {
	h, q, kv, d := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value), float64(m.HeadDim.Value)
	if m.Latent == nil {
		n := h*d*(q+2*kv) + q*d*h
		if m.Bias {
			n += d*(q+2*kv) + h
		}
		if m.QKNorm {
			n += 2 * d
		}
		return n
	}
	l := m.Latent
	rank, rope, nope, value := float64(l.KVRank.Value), float64(l.Rope.Value), float64(l.NoPE.Value), float64(l.Value.Value)
	n := h*(rank+rope) + rank + rank*q*(nope+value) + q*value*h // down, its norm, up, out
	if r := float64(l.QueryRank.Value); r > 0 {
		n += h*r + r + r*q*(nope+rope)
	} else {
		n += h * q * (nope + rope)
	}
	return n + m.indexerParameters()
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
func (m *Model) indexerParameters() float64 {
	if m.Indexer == nil {
		return 0
	}
	heads, dim := float64(m.Indexer.Heads.Value), float64(m.Indexer.HeadDim.Value)
	return float64(m.Latent.QueryRank.Value)*heads*dim + float64(m.Hidden.Value)*(dim+heads) + 2*dim
}

// FFNParameters returns the feed-forward weights of layer i: all that are stored, and those that
// one token uses.
func (m *Model) FFNParameters(i int) (stored, active float64) {
	h, matrices := float64(m.Hidden.Value), float64(m.FFNMatrices.Value)
	if m.MoE == nil || i < int(m.MoE.DenseLayers.Value) {
		n := matrices * h * float64(m.FFN.Value)
		if m.Bias {
			n += h + float64(m.FFN.Value)
		}
		return n, n
	}
	e := m.MoE
	expert, router := matrices*h*float64(e.FFN.Value), h*float64(e.Experts.Value)
	if m.Indexer != nil { // the router of DeepSeek-V3 has a bias per expert
		router += float64(e.Experts.Value)
	}
	shared := float64(e.Shared.Value)
	return expert*(float64(e.Experts.Value)+shared) + router, expert*(float64(e.Active.Value)+shared) + router
}

// EmbeddingParameters returns the weights of embeddings, learned positions and the output matrix.
func (m *Model) EmbeddingParameters() float64 {
	matrices := 2.0
	if m.Tied {
		matrices = 1
	}
	return float64(m.Hidden.Value) * (matrices*float64(m.Vocabulary.Value) + float64(m.Positions.Value))
}

// CountParameters counts the weights that the shape implies, norms included.
func (m *Model) CountParameters() float64 {
	layers, h := int(m.Layers.Value), float64(m.Hidden.Value)
	norm := h
	if m.Bias { // LayerNorm also has a bias
		norm = 2 * h
	}
	total := m.EmbeddingParameters() + norm
	for i := range layers {
		stored, _ := m.FFNParameters(i)
		total += m.AttentionParameters() + stored + 2*norm
	}
	return total
}
