package pipeline

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// What a GPU reaches of its datasheet where its file has no measurement: about what
// matrix products reach on A100, H100, H200 and B200 (0.78 to 0.87 of dense BF16), and
// copies on H100 (0.87). Assumed for all others; reports say so.
const (
	assumedMatrix = 0.8
	assumedMemory = 0.87
)

// Lookup and bookkeeping. A kernel reads and writes a few words of the position table for
// each demanded block, at a sector of device memory each; the host waits for its memory
// once for a block looked up and twice for one that enters, its threads side by side.
// No source states them: assumed.
const (
	sectorBytes   = 32
	sectors       = 3
	updateTouches = 2
	topkPasses    = 3 // over scores of 4 B
)

// Roofline times an operator as the longer of its arithmetic at the GPU's rate and its
// bytes at the memory's (Williams et al., CACM 2009), from the model's shape. Kernel
// launches are not counted. Weights are read once for all query tokens of a call; of
// routed experts, those that some token of the group chooses, evenly drawn.
type Roofline struct {
	Model     *hardware.Model
	Selection Selection
	Experts   int // GPUs that share the routed experts; each has its own batch. 0 is 1
	Threads   int // of the host, that look up. 0 is 1

	matrix, low float64 // FLOP/s: BF16, and that of the weights' precision
	memory      float64 // bytes/s
	latency     float64 // s, host memory
	notes       []string
}

// NewRoofline takes rates from the machine's files.
func NewRoofline(machine *hardware.Machine, m *hardware.Model, s Selection, experts, threads int) *Roofline {
	g := machine.GPU
	r := &Roofline{Model: m, Selection: s, Experts: max(1, experts), Threads: max(1, threads), latency: float64(machine.Host.Latency.Value)}
	r.matrix = r.rate("BF16", g.AchievedBF16.Known(), float64(g.AchievedBF16.Value), float64(g.BF16.Value), assumedMatrix)
	r.memory = r.rate("memory", g.AchievedMemoryBandwidth.Known(), float64(g.AchievedMemoryBandwidth.Value), float64(g.MemoryBandwidth.Value), assumedMemory)
	r.low = r.matrix
	if m.BytesPerParameter.Value <= 1 {
		if g.FP8.Known() {
			r.low = r.rate("FP8", g.AchievedFP8.Known(), float64(g.AchievedFP8.Value), float64(g.FP8.Value), assumedMatrix)
		} else {
			r.notes = append(r.notes, fmt.Sprintf("%s has no FP8: weights of %s are computed at its BF16 rate", g.Name, m.Name))
		}
	}
	return r
}

func (r *Roofline) rate(what string, known bool, achieved, sheet, share float64) float64 {
	if known {
		return achieved
	}
	r.notes = append(r.notes, fmt.Sprintf("%s rate assumed at %g of the datasheet", what, share))
	return share * sheet
}

// Notes say what was assumed.
func (r *Roofline) Notes() []string { return r.notes }

// at is the longer of arithmetic and memory.
func (r *Roofline) at(flop, rate, bytes float64) float64 { return max(flop/rate, bytes/r.memory) }

// weights is a product of n weights with some tokens.
func (r *Roofline) weights(n, tokens float64) float64 {
	return r.at(2*n*tokens, r.low, n*float64(r.Model.BytesPerParameter.Value))
}

// Layer prices one layer's operators.
func (r *Roofline) Layer(layer int, l *Load) (o Operators, err error) {
	m := r.Model
	first, second, out := projections(m, r.Selection.Method == "indexer")
	o.Project = r.weights(first, l.Queries)
	if second > 0 {
		o.Pre = r.weights(second, l.Queries)
	}
	o.Select = r.selecting(l)
	o.Attend = r.attention(l.Attended, l.Bytes)
	o.AttendAll = r.attention(l.Scored, l.Context*float64(m.Entry.Value))
	o.Post = r.weights(out, l.Queries) + r.feedForward(layer, l.Queries)
	o.LookupGPU = l.Demand * sectors * sectorBytes / r.memory
	threads := float64(r.Threads)
	o.LookupCPU, o.Update = l.Demand*r.latency/threads, l.Missed*updateTouches*r.latency/threads
	o.Recompute = r.at(2*recomputed(m)*l.Requests, r.low, 0)
	if l.Again > 0 {
		o.Again = r.weights(first+second+out, l.Again) + r.attention(l.Pairs, l.Again*float64(m.Entry.Value)) + r.feedForward(layer, l.Again)
	}
	return o, nil
}

// selecting scores the index and finds the Top-K.
func (r *Roofline) selecting(l *Load) float64 {
	rate := r.matrix
	if r.Selection.Method == "indexer" {
		rate = r.low // its keys are FP8
	}
	scores := l.Scored * r.Selection.scores(r.Model)
	return r.at(l.Scored*r.Selection.scoreFLOP(r.Model), rate, l.Context*r.Selection.IndexBytes(r.Model)) + r.at(0, 1, scores*4*topkPasses)
}

// attention of tokens attended × queries, with bytes of entries read.
func (r *Roofline) attention(attended, bytes float64) float64 {
	m := r.Model
	wide := 2 * float64(m.HeadDim.Value) // scores and values
	if m.Latent != nil {
		wide = 2*float64(m.Latent.KVRank.Value) + float64(m.Latent.Rope.Value)
	}
	return r.at(2*attended*float64(m.QueryHeads.Value)*wide, r.matrix, bytes)
}

// feedForward is a layer's FFN. Routed experts are divided among the GPUs, whose tokens
// spread evenly over them; the traffic between GPUs is not counted.
func (r *Roofline) feedForward(layer int, queries float64) float64 {
	m := r.Model
	stored, active := m.FFNParameters(layer)
	if stored == active {
		return r.weights(stored, queries)
	}
	read := active - routed(m)*float64(m.MoE.Active.Value) + routed(m)*r.touched(queries)
	return r.at(2*active*queries, r.low, read*float64(m.BytesPerParameter.Value))
}

// touched is how many of this GPU's routed experts some token chooses.
func (r *Roofline) touched(queries float64) float64 {
	e := r.Model.MoE
	missed := math.Pow(1-float64(e.Active.Value)/float64(e.Experts.Value), queries*float64(r.Experts))
	return float64(e.Experts.Value) / float64(r.Experts) * (1 - missed)
}

// Output is the projection to the vocabulary.
func (r *Roofline) Output(queries float64) (float64, error) {
	return r.weights(float64(r.Model.Hidden.Value)*float64(r.Model.Vocabulary.Value), queries), nil
}

// LayerWeights are the bytes of a layer on one GPU.
func LayerWeights(m *hardware.Model, layer, experts int) float64 {
	stored, active := m.FFNParameters(layer)
	n := m.AttentionParameters() + stored
	if stored != active {
		n -= routed(m) * float64(m.MoE.Experts.Value) * (1 - 1/float64(max(1, experts)))
	}
	return n * float64(m.BytesPerParameter.Value)
}

// GPUWeights are the bytes of all weights on one GPU, embeddings included.
func GPUWeights(m *hardware.Model, experts int) float64 {
	sum := m.EmbeddingParameters() * float64(m.BytesPerParameter.Value)
	for i := range int(m.Layers.Value) {
		sum += LayerWeights(m, i, experts)
	}
	return sum
}

// routed are the weights of one routed expert.
func routed(m *hardware.Model) float64 {
	return float64(m.FFNMatrices.Value) * float64(m.Hidden.Value) * float64(m.MoE.FFN.Value)
}

// projections are the weights that a layer's attention multiplies with before selection,
// between selection and attention, and after. Latent attention selects with the indexer's
// query, from the factored one, so that the full queries and their absorption into the
// latent space can wait; keys are absorbed, so that none is expanded (DeepSeek-V2,
// section 2.1). Elsewhere selection needs the queries. The indexer's own projections count
// if it is used.
func projections(m *hardware.Model, indexes bool) (first, second, out float64) {
	h, q, kv, d := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value), float64(m.HeadDim.Value)
	l := m.Latent
	if l == nil {
		return h * d * (q + 2*kv), 0, q * d * h
	}
	rank, rope, nope, value := float64(l.KVRank.Value), float64(l.Rope.Value), float64(l.NoPE.Value), float64(l.Value.Value)
	first, second, out = h*(rank+rope), q*nope*rank, q*value*(rank+h)
	if query := float64(l.QueryRank.Value); query > 0 {
		first += h * query
		second += query * q * (nope + rope)
	} else {
		first += h * q * (nope + rope)
	}
	if indexes {
		heads, dim := float64(m.Indexer.Heads.Value), float64(m.Indexer.HeadDim.Value)
		first += float64(l.QueryRank.Value)*heads*dim + h*(dim+heads)
	}
	return first, second, out
}

// recomputed are the weights that make K and V of a position from its activations.
func recomputed(m *hardware.Model) float64 {
	h := float64(m.Hidden.Value)
	if m.Latent != nil {
		return h * float64(m.Latent.KVRank.Value+m.Latent.Rope.Value)
	}
	return 2 * h * float64(m.KVHeads.Value) * float64(m.HeadDim.Value)
}
