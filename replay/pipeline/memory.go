package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Memory is the memory of each device, in bytes. GPU figures are those of one GPU. The GPUs share
// the host, and each GPU has a batch of its own.
type Memory struct {
	Weights float64 `json:"weights_bytes"`
	Index   float64 `json:"index_bytes"`   // of the selection for all tokens, and factors of the entries
	Cache   float64 `json:"cache_bytes"`   // the size of the caches and pinned blocks, or all KV
	Staging float64 `json:"staging_bytes"` // two of the largest fetches
	Reserve float64 `json:"reserve_bytes"` // driver, context, activations of a step
	GPU     float64 `json:"gpu_bytes"`     // sum of the above
	GPUHas  float64 `json:"gpu_has_bytes"`
	Host    float64 `json:"host_bytes"`
	HostHas float64 `json:"host_has_bytes"`
	SSD     float64 `json:"ssd_bytes"`
	kv      float64 // of all tokens, in the layers that the GPU has
	sharing int     // GPUs that share the host
	// Verdict is empty if everything fits.
	Verdict string `json:"verdict,omitempty"`
	// Remedy names the flag that lets the weights fit, if the stated GPUs are too few for them.
	Remedy string `json:"remedy,omitempty"`
}

// memory adds up the memory of a batch under a schedule. staging is its largest fetch, in bytes.
func (r *runner) memory(staging float64) (mem Memory) {
	m, machine := r.Model, r.Machine
	layers := float64(m.Layers.Value)
	tokens := r.tokens()
	kv := tokens * float64(m.Entry.Value) * layers
	mem.Weights = m.GPUBytes(r.Experts)
	token, rest := r.held(r.Batch)
	mem.Index, mem.kv = (tokens*token+rest)*layers, kv
	mem.Staging = 2 * staging
	mem.GPUHas, mem.HostHas = float64(machine.GPU.Memory.Value), float64(machine.Host.Memory.Value)
	mem.Reserve = r.reserve()
	gpus := float64(machine.GPUs)
	mem.sharing = machine.GPUs
	switch r.traits.Moves {
	case schedule.MovesNothing:
		mem.Cache, mem.Staging = kv, 0
		r.ofStage(&mem)
	case schedule.MovesQueries:
		mem.Staging, mem.Host = 0, kv*gpus
	case schedule.MovesDropped:
		mem.Cache, _ = r.resident()
		mem.Staging = 0
	case schedule.MovesLayers:
		one, k := kv/layers/float64(r.Schedule.Parts()), r.kvpr
		mem.Cache, mem.Staging = 2*one*k.KV.Ratio(), 0
		if k.KV.Group > 0 {
			mem.Cache += one // dequantised to FP16
		}
		mem.Host = kv * k.KV.Ratio() * gpus
		mem.Host += r.recomputed * float64(len(r.batch.Drawn)) * float64(m.Hidden.Value) * k.X.PerNumber() * layers * gpus
	case schedule.MovesUncached:
		mem.Staging = 0
		mem.Cache = kv * r.ellm.Cached(layers)
		mem.Host = kv * r.ellm.Hosted() * gpus
	default:
		var lower float64
		mem.Cache, lower = r.resident()
		below := r.moved / r.Scaling.EntryBytes // bytes below the GPU per byte of K and V
		mem.Host = kv * below * gpus
		if r.profile.Tiered {
			mem.Host, mem.SSD = lower*below*gpus, kv*below*gpus
		}
	}
	if r.traits.Weights { // two layers' weights are on the GPU, and the embedding stays there
		embedding := m.Bytes(m.EmbeddingParameters())
		streamed := mem.Weights - embedding
		mem.Host += streamed * gpus
		mem.Weights = 2*streamed/layers + embedding
	}
	host := r.Selection.Cost(m).Host
	mem.Host += (tokens*host.Token + float64(r.Batch)*host.Request) * layers * gpus
	mem.GPU = mem.Weights + mem.Index + mem.Cache + mem.Staging + mem.Reserve
	mem.Verdict, mem.Remedy = mem.verdict(machine), r.moreGPUs(&mem)
	return mem
}

// moreGPUs returns the flag that divides the routed experts among more GPUs. It returns "" if the
// weights fit, or if more GPUs do not help.
func (r *runner) moreGPUs(mem *Memory) string {
	host := cmp.Or(r.Machine.Stated, int(r.Machine.GPUs))
	n := ExpertGPUs(r.Model, r.Machine.GPU, 0)
	if n <= max(r.Machine.Stated, r.Experts) || mem.GPU <= mem.GPUHas {
		return ""
	}
	return fmt.Sprintf("--expert-gpus %d divides the experts among GPUs of %s", n, text.Count((n+host-1)/host, "host"))
}

// held returns the bytes that the GPU keeps in a layer outside of the cache, of a token and of a
// batch whatever its tokens: the index of the selection, and the factors of the entries.
func (o *Options) held(batch int) (token, rest float64) {
	token, request := o.entry().Held(o.Model)
	if !schedule.Selects(o.Schedule) {
		return token, float64(batch) * request
	}
	c := o.Selection.Cost(o.Model)
	return token + c.Token, float64(batch)*(request+c.Request) + c.Held
}

// usualReserved is the memory that driver and context keep on a GPU whose file does not state it.
// It is assumed. The bundled files have 0.4 to 1.2 GB.
const usualReserved hardware.Bytes = 1e9

// reserve returns the GPU memory without weights and KV: Options.Occupied, or Options.Reserve, or an
// estimate. The estimate covers driver, context and the activations of the step, or those of a chunk of
// prefill if its size is stated. With a chunk the estimate is added to Reserve, as in vLLM, which
// profiles a pass and leaves 1 − gpu_memory_utilization free besides. Iterations.Room has all terms of
// vLLM, and Occupied may pass them on.
func (r *runner) reserve() float64 {
	if r.Occupied > 0 {
		return r.Occupied
	}
	gpu := r.Machine.GPU
	estimate := float64(gpu.Reserved.Or(usualReserved)) + r.activations()
	share := r.Reserve * float64(gpu.Memory.Value)
	if r.Reserve > 0 && r.Prefill.Chunk == 0 {
		return share
	}
	return share + estimate
}

// activations returns the bytes of a layer's intermediate results in FP16, and of the logits in
// FP16 and FP32, for the positions of a step. They are derived from the model's shape: the layer's
// input and residual, queries, keys and values, the attention's output, and the inputs of the
// feed-forward's last matrix. With tensor parallelism each GPU has all logits. eLLM runs layers
// again over its uncached tokens, which need as much per token.
func (r *runner) activations() float64 {
	positions := cmp.Or(r.Positions, max(1, r.profile.Meta.StepTokens))
	queries, again := float64(len(r.batch.Drawn)*positions), 0.
	if e := r.ellm; e != nil {
		again = e.Uncached * r.tokens()
	}
	tokens := max(queries+again, float64(r.Prefill.tokens(int64(r.Batch))))
	routed := 0.
	if e := r.Model.MoE; e != nil {
		routed = float64(e.Active.Value)
	}
	token, output := r.activation(routed)
	return tokens*token + queries*output
}

// activation returns the bytes of activations for a token of a step, and for a sampled token. Inputs of the
// last matrix of routed experts count for some of them.
func (r *runner) activation(routed float64) (token, output float64) {
	m := r.Model
	hidden, heads, dim := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.HeadDim.Value)
	wide := float64(m.FFN.Value)
	if e := m.MoE; e != nil {
		wide = max(wide, float64(e.FFN.Value)*(routed+float64(e.Shared.Value)))
	}
	numbers := 3*hidden + 2*heads*dim + float64(m.Entry.Value)/hardware.HalfBytes + float64(m.FFNMatrices.Value-1)*wide
	const logit = hardware.HalfBytes + 4
	return numbers * hardware.HalfBytes, r.vocabulary * logit
}

func (m *Memory) verdict(machine *hardware.Machine) string {
	var exceeds []string
	if m.GPU > m.GPUHas {
		exceeds = append(exceeds, fmt.Sprintf("GPU needs %s of %s", hardware.Bytes(m.GPU), hardware.Bytes(m.GPUHas)))
	}
	if m.Host > m.HostHas {
		exceeds = append(exceeds, m.HostVerdict(machine))
	}
	return strings.Join(exceeds, "; ")
}

// HostVerdict states the host memory that is needed and available.
func (m *Memory) HostVerdict(machine *hardware.Machine) string {
	return fmt.Sprintf("host needs %s of %s for %s", hardware.Bytes(m.Host), hardware.Bytes(m.HostHas), text.Count(int(machine.GPUs), "GPU"))
}

// tokens returns the tokens of all requests at their longest.
func (r *runner) tokens() (sum float64) {
	return slice.Sum(r.batch.Drawn, func(i int) float64 { return r.longest(i) })
}

// longest returns a request's greatest context, or the one in the options, in tokens.
func (r *runner) longest(request int) float64 {
	if r.Context > 0 {
		return float64(r.Context)
	}
	return float64(r.mosts[request][0].length)
}

// most holds the greatest counts of a request's layer.
type most struct{ resident, lower, length int64 }

// mosts returns the greatest counts by request and layer. If layers share a cache, it is fullest at
// one step. resident and lower are then the counts of each layer at that step. A cache of fixed size
// takes its memory at the start, so resident is at least the size, even if the steps never fill it.
func mosts(p *Profile) [][]most {
	all := make([][]most, len(p.Requests))
	for i := range p.Requests {
		layers := p.Requests[i].Steps
		for _, steps := range layers {
			var m most
			for j := range steps {
				c := &steps[j]
				m = most{max(m.resident, c.Resident), max(m.lower, c.Below), max(m.length, c.SeqLen)}
			}
			all[i] = append(all[i], m)
		}
		if p.Meta.Pool == string(replay.PoolRequest) {
			above, lower := fullest(layers, func(c *Counts) int64 { return c.Resident }), fullest(layers, func(c *Counts) int64 { return c.Below })
			for l := range layers {
				all[i][l].resident, all[i][l].lower = layers[l][above].Resident, layers[l][lower].Below
			}
		}
		size := p.allocated(&layers[0][0])
		for l := range layers {
			all[i][l].resident = max(all[i][l].resident, size)
		}
	}
	return all
}

// allocated returns the blocks of a layer's caches of fixed size, at their largest if they grow. All
// layers of a request have the prompt that first states. It
// returns 0 for a policy without capacity. It also returns 0 for a size that the text does not state:
// memory that streams divide, the peak of another policy, or a plan.
func (p *Profile) allocated(first *Counts) int64 {
	capacity, err := setting.ParseCapacity(p.Cell.Capacity)
	if err != nil {
		return 0
	}
	capacity = capacity.Last()
	switch capacity.Form() {
	case setting.TimesK, setting.OfContext, setting.InEntries:
		m := &p.Meta
		blocks, _ := capacity.Blocks(setting.Sizing{TopK: m.TopK * cmp.Or(m.ListTokens, m.BlockTokens, 1), BlockTokens: max(1, m.BlockTokens), PromptLen: int(first.Prompt)})
		return int64(max(1, p.Heads) * blocks)
	}
	return 0
}

// fullest returns the step with the largest sum over the layers.
func fullest(layers [][]Counts, count func(*Counts) int64) (step int) {
	most := int64(-1)
	for j := range layers[0] {
		sum := int64(0)
		for l := range layers {
			sum += count(&layers[l][j])
		}
		if sum > most {
			step, most = j, sum
		}
	}
	return step
}

// pinnedRoom returns the room of a head's pinned blocks, in tokens: sinks, outliers, and the local
// window at its worst position.
func pinnedRoom(m *replay.ProfileMeta) float64 {
	block := max(1, m.BlockTokens)
	return float64((m.Sink+block-1)/block*block + localRoom(m.Local, block) + m.OutlierBlocks*block)
}

// localRoom returns the room of the blocks that a local window touches at its worst position, in
// tokens.
func localRoom(tokens, block int) int {
	if tokens == 0 {
		return 0
	}
	return (tokens + 2*block - 2) / block * block
}

// resident returns the bytes of the GPU's caches and of the tier below. Each stream counts at its
// most, with pinned blocks. Scaled counts are limited to the request's context.
func (r *runner) resident() (cache, lower float64) {
	meta, s := &r.profile.Meta, r.Scaling
	block := float64(max(1, meta.BlockTokens))
	entries := block * float64(max(1, meta.SharedHeads)) * s.Factor
	pinned := pinnedRoom(meta) * s.Heads
	for _, i := range r.batch.Drawn {
		all := math.Ceil(r.longest(i)/block) * block * s.Heads
		for _, j := range s.LayerOf {
			m := &r.mosts[i][j]
			cache += min(float64(m.resident)*entries+pinned, all) * s.EntryBytes
			lower += min(float64(m.lower)*entries, all) * s.EntryBytes
		}
	}
	return cache, lower
}

// CacheRatio is ESS's memory planner (section 4.1). It returns the share of its context that each
// of batch requests may keep on the GPU. full is the number of requests that fit on it whole:
//
//	r(B) = (B₀/B − x) / (1 − x)
//
// B₀ is full. index is x, the share of a token's bytes that always stays on the GPU, those of the
// indexer. The ratio is at most 1. It is below 0 if not even the index fits.
func CacheRatio(full, batch, index float64) float64 {
	return min(1, (full/batch-index)/(1-index))
}
