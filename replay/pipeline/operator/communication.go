package operator

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Group is the GPUs that divide every layer and decode one batch together (tensor parallelism). A nil
// group is one GPU, whose communication takes no time.
type Group struct {
	GPUs       int
	Network    *collective.Network
	Method     collective.Method // of all-reduces
	Hidden     float64           // numbers of a token's hidden state
	Vocabulary float64           // words of the whole model
}

// AllReduce returns the time to sum the hidden states of some query tokens.
func (g *Group) AllReduce(queries float64) float64 {
	if g == nil {
		return 0
	}
	return g.Network.AllReduce(g.Method, g.GPUs, queries*g.Hidden*hardware.HalfBytes)
}

// GatherLogits returns the time until each GPU has the logits of some query tokens.
func (g *Group) GatherLogits(queries float64) float64 {
	if g == nil {
		return 0
	}
	return g.Network.AllGather(g.GPUs, queries*g.Vocabulary*hardware.HalfBytes)
}

// Routed experts on several GPUs get their tokens by a dispatch, and return the results by a combine
// (DeepSeek-V3, Technical Report, arXiv 2412.19437, section 3.4). Each GPU has a batch of its own. In
// decoding it sends each token to each of its experts.

// Exchange prices the dispatch and the combine of a layer with routed experts on several GPUs. A nil
// exchange takes no time.
type Exchange struct {
	network           *collective.Network
	gpus, active      int     // active: experts of a token
	gathers           bool    // see Engine.Gathers
	wire              float64 // rate to GPUs of other hosts, bytes/s
	dispatch, combine float64 // bytes of a query token: with gathers sent once, otherwise to all its experts
}

// scaleBlock is the number of FP8 numbers with one scale of 4 B (DeepSeek-V3, section 3.3.2).
const scaleBlock = 128

// chosen is the bytes of an expert of a token and of its weight that are gathered with the token: an int32 and a float32.
const chosen = 8

// NewExchange returns the exchange of a model's experts. Models with weights of one byte dispatch
// FP8 with scales, those with NVFP4 weights NVFP4, others BF16. All combine BF16, as DeepEP does.
// gathers is Engine.Gathers. Weights of one byte with scales of blocks then have tokens of BF16, and others of FP8
// alone. The source is forward_chunk of fused_moe_cutlass.py, which engines names.
func NewExchange(m *hardware.Model, n *collective.Network, gpus int, wire float64, gathers bool) *Exchange {
	active, hidden := float64(m.MoE.Active.Value), float64(m.Hidden.Value)
	x := &Exchange{n, gpus, int(active), gathers, wire, hidden * hardware.HalfBytes, hidden * hardware.HalfBytes}
	switch low := m.BytesPerParameter.Value == 1; {
	case m.NVFP4:
		x.dispatch = hidden * hardware.NVFP4Bytes
	case low && !gathers:
		x.dispatch = hidden * (1 + 4./scaleBlock)
	case low && m.ScaleBlock.Value == 0:
		x.dispatch = hidden
	}
	if gathers {
		x.dispatch += active * chosen
	} else {
		x.dispatch, x.combine = active*x.dispatch, active*x.combine
	}
	return x
}

// Seconds returns the times of dispatch and combine for some query tokens of each GPU. Hosts forward the
// tokens if prompts are among them.
func (x *Exchange) Seconds(queries float64, prompts bool) (dispatch, combine float64) {
	switch {
	case x == nil:
		return 0, 0
	case x.gathers: // each GPU gets the tokens of all, once
		all := queries * float64(x.gpus)
		return x.network.ReduceScatter(x.gpus, all*x.dispatch), x.network.ReduceScatter(x.gpus, all*x.combine)
	case prompts:
		return x.network.Forward(x.gpus, x.active, queries*x.dispatch, x.wire), x.network.Forward(x.gpus, x.active, queries*x.combine, x.wire)
	}
	return x.network.Exchange(x.gpus, queries*x.dispatch, x.wire), x.network.Exchange(x.gpus, queries*x.combine, x.wire)
}

// Program names the programs of the exchange.
func (x *Exchange) Program() string {
	if x.gathers {
		return "all-gather and reduce-scatter"
	}
	return "dispatch and combine"
}

// Busiest returns the tokens of the busiest of the GPUs that share routed experts, divided by their mean. It
// is 1 on one GPU, and without Engine.Skew.
func (c *Config) Busiest() float64 {
	if c.Engine == nil || c.Experts < 2 {
		return 1
	}
	return busiest(c.Engine.Skew, c.Experts, float64(c.Model.MoE.Experts.Value))
}

// busiest is Busiest of some GPUs and experts. Tokens of a GPU are log-normal, as measured
// (https://github.com/deepseek-ai/DeepEP/pull/393). skew is Engine.Skew. The greatest of several values is
// the median one of that rank (Blom, Statistical Estimates, 1958).
func busiest(skew float64, gpus int, experts float64) float64 {
	n := float64(gpus)
	variance := math.Log1p(skew * skew * n / experts)
	rank := (n - 0.375) / (n + 0.25)
	return math.Exp(math.Sqrt(2*variance)*math.Erfinv(2*rank-1) - variance/2)
}

// Basis names the sources of the constants of the network.
func (x *Exchange) Basis() []string { return x.network.NCCL.Basis }
