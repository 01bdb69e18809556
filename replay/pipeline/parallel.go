package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Tensor parallelism divides every layer among GPUs that decode one batch together (Megatron-LM,
// Shoeybi et al. 2019, section 3). Each has a part of the attention heads with their KV, of the
// FFN's width, and of the vocabulary. The sums of the parts are all-reduced after the attention's
// output projection, after the FFN, and after the embedding. The logits are gathered.

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
	case o.Schedule != OnGPU{Dense: true}:
		return refuse("schedule %s runs on one GPU: choose dense", o.Schedule.Name())
	case m.MoE != nil || m.Latent != nil:
		return refuse("%s has routed experts or latent attention, which are not divided: choose another model", m.Name)
	case !whole(m.QueryHeads.Value/g) || !whole(m.FFN.Value/g),
		!whole(m.KVHeads.Value/g) && !whole(g/m.KVHeads.Value):
		return refuse("it does not divide %g query heads, %g KV heads and an FFN of %g evenly",
			m.QueryHeads.Value, m.KVHeads.Value, m.FFN.Value)
	case o.Network == nil:
		return errors.New("tensor parallelism needs a network between the GPUs")
	}
	return nil
}

// shard returns the part of a model that one of n GPUs has. If a model has fewer KV heads than
// GPUs, several GPUs have the same one.
func shard(m *hardware.Model, n int) *hardware.Model {
	part, g := *m, hardware.Number(n)
	part.QueryHeads.Value /= g
	part.KVHeads.Value = max(1, m.KVHeads.Value/g)
	part.FFN.Value /= g
	part.Vocabulary.Value = hardware.Number(math.Ceil(float64(m.Vocabulary.Value / g)))
	part.Entry.Value *= hardware.Bytes(part.KVHeads.Value / m.KVHeads.Value)
	return &part
}

// parallelize gives each GPU its part of the model, and finds the network between them.
func (r *runner) parallelize() (err error) {
	r.TensorParallel = max(1, r.TensorParallel)
	if r.TensorParallel == 1 {
		return nil
	}
	if r.network, err = r.Network(r.Machine.GPU); err != nil {
		return err
	}
	r.vocabulary = float64(r.Model.Vocabulary.Value)
	r.Model = shard(r.Model, r.TensorParallel)
	r.note("tensor parallelism: %d GPUs decode one batch, memory and tokens/s are those of each", r.TensorParallel)
	r.note("all-reduce: constants of %s, about %s for a call. The gather of the logits is derived",
		strings.Join(r.network.Basis, " and "), hardware.Seconds(r.network.Constants.Call))
	return nil
}

// communicate prices the communication of a step of some query tokens.
func (r *runner) communicate(s *Step, queries float64) {
	s.Embed, s.Gather = 0, 0
	if r.network == nil {
		return
	}
	s.Embed = r.allReduce(queries)
	s.Gather = r.network.AllGather(r.TensorParallel, queries*r.vocabulary*halfBytes)
}

// allReduce returns the time to sum the hidden states of some query tokens.
func (r *runner) allReduce(queries float64) float64 {
	if r.network == nil {
		return 0
	}
	return r.network.AllReduce(r.TensorParallel, queries*float64(r.Model.Hidden.Value)*halfBytes)
}
