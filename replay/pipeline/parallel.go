package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Tensor parallelism divides every layer among GPUs that decode one batch together (Megatron-LM,
// Shoeybi et al. 2019, section 3). Each has a part of the attention heads with their KV, of the
// FFN's width, and of the vocabulary. The sums of the parts are all-reduced after the attention's
// output projection, after the FFN, and after the embedding. The logits are gathered.
//
// Each GPU has a part of the width of every expert, and the whole router (vLLM's FusedMoE, SGLang and
// gpt-fast). The FFN of a layer has one all-reduce, as without experts. Heads of latent attention
// share one entry, so each GPU has all entries. Projections to the latents are whole, and those of
// heads are divided (vLLM's DeepseekV2MLAAttention). Each GPU runs the whole indexer, and other
// selections for its own heads.

// checkParallel refuses degrees that a model, a schedule or the measurements do not allow.
func (o *Options) checkParallel() error {
	n, m := o.TensorParallel, o.Model
	if n <= 1 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("--tensor-parallel %d: "+format, append([]any{n}, args...)...)
	}
	g, whole := hardware.Number(n), func(v hardware.Number) bool { return v == hardware.Number(math.Trunc(float64(v))) }
	switch {
	case o.Schedule != schedule.OnGPU{Dense: true} && o.Schedule != schedule.OnGPU{}:
		return refuse("schedule %s runs on one GPU: choose dense or gpu", o.Schedule.Name())
	case o.Experts > 1:
		return refuse("each GPU has a part of every expert, and --expert-gpus %d divides whole experts: choose one", o.Experts)
	case !whole(m.QueryHeads.Value/g) || !whole(m.FFN.Value/g),
		m.Latent == nil && !whole(m.KVHeads.Value/g) && !whole(g/m.KVHeads.Value):
		return refuse("it does not divide %g query heads, %g KV heads and an FFN of %g evenly",
			m.QueryHeads.Value, m.KVHeads.Value, m.FFN.Value)
	case m.MoE != nil && !whole(m.MoE.FFN.Value/g):
		return refuse("it does not divide experts of a width of %g evenly", m.MoE.FFN.Value)
	case o.Network == nil:
		return errors.New("tensor parallelism needs a network between the GPUs")
	}
	return nil
}

// shard returns the part of a model that one of n GPUs has. If a model has fewer KV heads than
// GPUs, several GPUs have the same one. All have the entries of latent attention.
func shard(m *hardware.Model, n int) *hardware.Model {
	part, g := *m, hardware.Number(n)
	part.QueryHeads.Value /= g
	part.KVHeads.Value = max(1, m.KVHeads.Value/g)
	part.FFN.Value /= g
	part.Vocabulary.Value = hardware.Number(math.Ceil(float64(m.Vocabulary.Value / g)))
	if m.Latent == nil {
		part.Entry.Value *= hardware.Bytes(part.KVHeads.Value / m.KVHeads.Value)
	}
	if m.MoE != nil {
		experts := *m.MoE
		experts.FFN.Value /= g
		part.MoE = &experts
	}
	return &part
}

// ratePerGPU is a note about batches that no iteration has: a server states the tokens/s of all its GPUs.
const ratePerGPU = "tensor parallelism: tokens/s are those of one GPU"

// parallelize gives each GPU its part of the model, and finds the network between them.
func (r *runner) parallelize() error {
	r.TensorParallel, r.vocabulary = max(1, r.TensorParallel), float64(r.Model.Vocabulary.Value)
	if r.TensorParallel == 1 {
		return nil
	}
	network, err := r.Network(r.Machine, r.TensorParallel)
	if err != nil {
		return err
	}
	whole := r.Model
	r.group = &operator.Group{GPUs: r.TensorParallel, Network: network, Method: r.Engine.Sums(),
		Hidden: float64(whole.Hidden.Value), Vocabulary: r.vocabulary}
	r.Model = shard(whole, r.TensorParallel)
	if whole.Latent == nil { // a GPU selects for its own heads
		own, share := *r.Scaling, float64(r.Model.KVHeads.Value/whole.KVHeads.Value)
		own.Heads, own.Factor = own.Heads*share, own.Factor*share
		r.Scaling = &own
	}
	r.note("tensor parallelism: %d GPUs decode one batch, memory is that of each", r.TensorParallel)
	r.note(ratePerGPU)
	r.note("all-reduce: %s. The gather of the logits is derived", network.Basis(r.group.Method))
	return nil
}

// exchangeExperts finds the exchange between the GPUs that share routed experts. If it cannot be
// priced, missing says why.
func (r *runner) exchangeExperts() (missing string, err error) {
	wire := r.Machine.NetworkBandwidth
	peers, _ := r.Machine.Peers()
	switch {
	case r.Experts < 2:
		return "", nil
	case r.Network == nil:
		return "no network between GPUs is given", nil
	case peers == 0:
		return fmt.Sprintf("GPU %s states no peer_bandwidth", r.Machine.GPU.Name), nil
	case r.Experts > collective.Most && !wire.Known():
		return fmt.Sprintf("machine %s states no network_bandwidth between hosts", r.Machine.Name), nil
	}
	n, err := r.Network(r.Machine, r.Experts)
	if err != nil {
		return "", err
	}
	r.exchange = operator.NewExchange(r.Model, n, r.Experts, float64(wire.Value), r.Engine != nil && r.Engine.Gathers)
	return "", nil
}

// noteExchange notes the basis of dispatch and combine, unless a study has operators of its own.
func (r *runner) noteExchange(missing string) {
	if r.Override != nil || r.Experts < 2 {
		return
	}
	if missing != "" {
		r.note("dispatch and combine of experts are not counted: %s", missing)
		return
	}
	between := ""
	if r.Experts > collective.Most {
		between = fmt.Sprintf(" and %s between hosts", r.Machine.NetworkBandwidth.Value)
	}
	r.note("%s of experts on %d GPUs: derived from constants of %s%s", r.exchange.Program(), r.Experts,
		strings.Join(r.exchange.Basis(), " and "), between)
}

// NetworkFinder returns the network between some GPUs of a machine.
type NetworkFinder func(m *hardware.Machine, gpus int) (*collective.Network, error)

// Networks returns the network between some GPUs of a machine, with the constants of a library. Each
// group is fitted once. Goroutines may share it.
func Networks(lib *hardware.Library) NetworkFinder {
	type group struct {
		machine *hardware.Machine
		gpus    int
	}
	find := memo.Func(func(g group) (*collective.Network, error) { return collective.New(g.machine, g.gpus, lib) })
	return func(m *hardware.Machine, gpus int) (*collective.Network, error) { return find(group{m, gpus}) }
}
