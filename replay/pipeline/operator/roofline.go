package operator

import (
	"cmp"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Shares of the datasheet's rates that a GPU reaches if its file has no measurement. Matrix
// products reach 0.78 to 0.87 of dense BF16 on A100, H100, H200 and B200. Copies reach 0.87 on
// H100. The values are assumed for all other GPUs, and reports state it. Hosts are assumed to reach
// AssumedMatrix too.
const (
	AssumedMatrix = 0.8
	assumedMemory = 0.87
)

// Bookkeeping. The host waits for its memory twice per block that enters. No source states these
// numbers, so they are assumed. lookup.go has those of lookups.
const (
	updateTouches = 2
	topkPasses    = 3 // over scores of 4 B each
)

// Roofline takes as the time of an operator the longer of two: its arithmetic at the GPU's rate and
// its bytes at the memory's rate (Williams et al., CACM 2009). Both follow from the model's shape.
// Kernel launches are not counted. Weights are read once for all query tokens of a call. Only
// routed experts that some token of the group chooses are read, and tokens choose evenly.
type Roofline struct {
	Config
	first, second, out []matrix // of the projections

	matrix, low float64 // FLOP/s of BF16, and of FP8
	fp4         float64 // FLOP/s of FP4
	memory      float64 // bytes/s
	latency     float64 // latency of host memory, s
	host        float64 // bytes/s of host memory, for one of the GPUs
	scan        float64 // bytes/s that the threads read from it
	notes       []string
}

// NewRoofline returns a roofline with the rates of the machine's files.
func NewRoofline(c Config) *Roofline {
	m, g, host := c.Model, c.Machine.GPU, c.Machine.Host
	c.Experts, c.Threads, c.Lookup = max(1, c.Experts), max(1, c.Threads), cmp.Or(c.Lookup, lookups[0])
	r := &Roofline{Config: c, latency: float64(host.Latency.Value)}
	r.first, r.second, r.out = projections(m, c.Selection.Method == indexer)
	r.host = float64(host.StreamBandwidth.Value) / float64(max(1, c.Machine.GPUs))
	r.scan = min(r.host, float64(r.Threads)*float64(host.ThreadBandwidth.Value))
	r.matrix = r.rate("BF16", g.AchievedBF16.Known(), float64(g.AchievedBF16.Value), float64(g.BF16.Value), AssumedMatrix)
	r.memory = r.rate("memory", g.AchievedMemoryBandwidth.Known(), float64(g.AchievedMemoryBandwidth.Value), float64(g.MemoryBandwidth.Value), assumedMemory)
	r.low = r.matrix
	if m.BytesPerParameter.Value <= 1 {
		if g.FP8.Known() {
			r.low = r.rate("FP8", g.AchievedFP8.Known(), float64(g.AchievedFP8.Value), float64(g.FP8.Value), AssumedMatrix)
		} else {
			r.notes = append(r.notes, fmt.Sprintf("%s has no FP8: weights of %s are computed at its BF16 rate", g.Name, m.Name))
		}
	}
	r.fp4 = r.matrix
	switch {
	case m.NVFP4 && g.FP4.Known():
		r.fp4 = r.rate("FP4", g.AchievedFP4.Known(), float64(g.AchievedFP4.Value), float64(g.FP4.Value), AssumedMatrix)
	case m.NVFP4:
		r.notes = append(r.notes, fmt.Sprintf("%s has no FP4: weights of %s are computed at its BF16 rate", g.Name, m.Name))
	}
	return r
}

func (r *Roofline) rate(what string, known bool, achieved, sheet, share float64) float64 {
	if known {
		return achieved
	}
	r.notes = append(r.notes, fmt.Sprintf("%s rate assumed: %g of the datasheet's", what, share))
	return share * sheet
}

// Notes returns the assumptions.
func (r *Roofline) Notes() []string { return r.notes }

// at returns the longer of the times of arithmetic and memory.
func (r *Roofline) at(flop, rate, bytes float64) float64 { return max(flop/rate, bytes/r.memory) }

// weights returns the time to multiply weights with some tokens.
func (r *Roofline) weights(w hardware.Weights, tokens float64) float64 {
	flop := w
	for p := range flop {
		flop[p] *= 2 * tokens
	}
	return r.computing(flop, w)
}

// attending returns the time to multiply n weights of attention with some tokens.
func (r *Roofline) attending(n, tokens float64) float64 {
	return r.weights(hardware.Weights{hardware.Attention: n}, tokens)
}

// computing returns the time of arithmetic with weights, of which some are read.
func (r *Roofline) computing(flop, read hardware.Weights) float64 {
	var seconds, bytes float64
	for p := range read {
		part := hardware.Part(p)
		seconds += flop[p] / r.speed(part)
		bytes += read[p] * r.Model.WeightBytes(part)
	}
	return max(seconds, bytes/r.memory)
}

// speed returns the FLOP/s of products with weights of a part.
func (r *Roofline) speed(p hardware.Part) float64 {
	switch {
	case r.Model.WeightBytes(p) == 1:
		return r.low
	case r.Model.FP4(p):
		return r.fp4
	}
	return r.matrix
}

// Layer prices one layer's operators.
func (r *Roofline) Layer(layer int, l *Load) (o Times, err error) {
	m := r.Model
	first, second, out := parameters(r.first), parameters(r.second), parameters(r.out)
	o.Project = r.attending(first, l.Queries)
	if second > 0 {
		o.Pre = r.attending(second, l.Queries)
	}
	o.Select = r.selecting(l)
	o.Attend = r.attention(l.Attended, l.Bytes)
	o.AttendAll = r.attention(l.Scored, l.Context*float64(m.Entry.Value))
	o.Post = r.attending(out, l.Queries) + r.feedForward(layer, l.Queries, l.routed())
	if stored, active := m.FFNParameters(layer); stored != active {
		flop := 2 * routed(m) * float64(m.MoE.Active.Value) * l.routed()
		o.RoutedShare = r.computing(hardware.Weights{hardware.Experts: flop}, hardware.Weights{hardware.Experts: routed(m) * r.touched(l.routed())}) / o.Post
		o.Dispatch, o.Combine = r.Exchange.Seconds(l.routed(), len(l.Chunks) > 0)
	}
	o.LookupGPU, o.LookupCPU = r.lookup(l)
	o.Update = l.Fetched * updateTouches * r.latency / float64(r.Threads)
	if l.Remade {
		o.Recompute = r.at(2*m.KeyValueParameters()*l.Requests, r.speed(hardware.Attention), 0)
	}
	for _, c := range l.Chunks {
		tokens := float64(c.Tokens + c.Before)
		o.AttendChunks += r.prompts(r.causal(c.Pairs(), tokens), c.Pairs(), c.Selected(r.Selection.TopK(r.Model)), tokens)
	}
	if l.Again > 0 {
		o.Again = r.attending(first+second+out, l.Again) + r.prompts(r.causal(l.Pairs, l.Again), l.Pairs, l.Selected, l.Again) +
			r.feedForward(layer, l.Again, l.Again)
	}
	return o, nil
}

// attention returns the time of attention: attended is tokens × queries, bytes are those of the
// entries that it reads.
func (r *Roofline) attention(attended, bytes float64) float64 {
	return r.at(attentionFLOP(r.Model, attended), r.matrix, bytes)
}

// attentionFLOP returns the arithmetic of attention to some tokens × queries.
func attentionFLOP(m *hardware.Model, attended float64) float64 {
	wide := 2 * float64(m.HeadDim.Value) // scores and values
	if m.Latent != nil {
		wide = 2*float64(m.Latent.KVRank.Value) + float64(m.Latent.Rope.Value)
	}
	return 2 * attended * float64(m.QueryHeads.Value) * wide
}

// causal returns the time of attention of some tokens to those before them, which are pairs
// together.
func (r *Roofline) causal(pairs, tokens float64) float64 {
	m := r.Model
	return r.at(2*pairs*float64(m.QueryHeads.Value)*causalWidth(m), r.matrix, tokens*float64(m.Entry.Value))
}

// prompts returns the time of attention of prompts. With an indexer all pairs are scored. If that
// selects fewer than all, attention to these is in the latent space, as in decoding. dense is the time of
// attention to all, in heads. vLLM changes between the forms at K tokens too (use_dense_mha in
// vllm/model_executor/layers/attention/sparse_mla_attention.py). DeepSeek-V3.2 has a masked form of the
// latter for short prompts (arXiv 2512.02556, section 2.3), which is not modelled.
func (r *Roofline) prompts(dense, pairs, selected, tokens float64) float64 {
	if r.Selection.TopK(r.Model) == 0 {
		return dense
	}
	if selected < pairs {
		dense = r.attention(selected, tokens*float64(r.Model.Entry.Value))
	}
	c := r.Selection.Cost(r.Model)
	return dense + r.scoring(pairs, 0, tokens*c.read)
}

// causalWidth returns the width of a head's key and value in causal attention. Latent attention
// expands both for prompts (DeepSeek-V2, section 2.1). The weights of the expansion are those that
// decoding absorbs.
func causalWidth(m *hardware.Model) float64 {
	if l := m.Latent; l != nil {
		return float64(l.NoPE.Value + l.Rope.Value + l.Value.Value)
	}
	return 2 * float64(m.HeadDim.Value)
}

// feedForward returns the time of a layer's FFN over queries. Routed experts are divided among the GPUs, and
// tokens spread evenly over them. expertTokens is the number of tokens whose routed experts this GPU runs.
func (r *Roofline) feedForward(layer int, queries, expertTokens float64) float64 {
	m := r.Model
	stored, active := m.FFNParameters(layer)
	if stored == active {
		return r.weights(stored, queries)
	}
	flop, read := active, active
	for p := range flop {
		flop[p] *= 2 * queries
	}
	flop[hardware.Experts] = 2 * active[hardware.Experts] * expertTokens
	read[hardware.Experts] = routed(m) * r.touched(expertTokens)
	return r.computing(flop, read)
}

// touched returns the number of this GPU's routed experts that some token chooses.
func (r *Roofline) touched(queries float64) float64 {
	e := r.Model.MoE
	missed := math.Pow(1-float64(e.Active.Value)/float64(e.Experts.Value), queries*float64(r.Experts))
	return float64(e.Experts.Value) / float64(r.Experts) * (1 - missed)
}

// Output returns the time of the projection to the vocabulary, in seconds.
func (r *Roofline) Output(queries float64) (float64, error) {
	return r.weights(hardware.Weights{hardware.Plain: float64(r.Model.Hidden.Value) * float64(r.Model.Vocabulary.Value)}, queries), nil
}

// routed returns the number of one routed expert's weights.
func routed(m *hardware.Model) float64 {
	return float64(m.FFNMatrices.Value) * float64(m.Hidden.Value) * float64(m.MoE.FFN.Value)
}
