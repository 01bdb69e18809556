package operator

import (
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
	wire              float64 // rate to GPUs of other hosts, bytes/s
	dispatch, combine float64 // bytes of a query token
}

// scaleBlock is the number of FP8 numbers with one scale of 4 B (DeepSeek-V3, section 3.3.2).
const scaleBlock = 128

// NewExchange returns the exchange of a model's experts. Models with weights of one byte dispatch
// FP8 with scales, those with NVFP4 weights NVFP4, others BF16. All combine BF16, as DeepEP does.
func NewExchange(m *hardware.Model, n *collective.Network, gpus int, wire float64) *Exchange {
	numbers := float64(m.MoE.Active.Value) * float64(m.Hidden.Value)
	x := &Exchange{n, gpus, int(m.MoE.Active.Value), wire, numbers * hardware.HalfBytes, numbers * hardware.HalfBytes}
	switch {
	case m.NVFP4:
		x.dispatch = numbers * hardware.NVFP4Bytes
	case m.BytesPerParameter.Value == 1:
		x.dispatch = numbers * (1 + 4./scaleBlock)
	}
	return x
}

// Seconds returns the times of dispatch and combine for some query tokens of each GPU. Hosts forward the
// tokens if prompts are among them.
func (x *Exchange) Seconds(queries float64, prompts bool) (dispatch, combine float64) {
	switch {
	case x == nil:
		return 0, 0
	case prompts:
		return x.network.Forward(x.gpus, x.active, queries*x.dispatch, x.wire), x.network.Forward(x.gpus, x.active, queries*x.combine, x.wire)
	}
	return x.network.Exchange(x.gpus, queries*x.dispatch, x.wire), x.network.Exchange(x.gpus, queries*x.combine, x.wire)
}

// Basis names the sources of the constants of the network.
func (x *Exchange) Basis() []string { return x.network.NCCL.Basis }
