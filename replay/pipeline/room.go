package pipeline

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Room is the memory of one GPU for a serving engine, in bytes. The layers of an iteration take Token
// for each token, and Layer once. The sampler runs after them. It takes Output for each sampled token, and Kept for
// each token, whose hidden state stays.
type Room struct {
	Total, Weights, Fixed float64
	Token, Kept, Output   float64
	Layer                 float64
	Entry                 float64 // KV of one token in all layers
	Index                 float64 // keys of an indexer of one token in all layers
	Host                  float64 // memory of the host for this GPU
}

// Memory that vLLM 0.19 takes on a GPU, in bytes. Files are those of vLLM v0.19.0, unless another project
// is named.
const (
	// contextBytes is the part of GPU.Reserved that a CUDA context takes. The files of all GPUs assume
	// it. vLLM has a context before it looks at the memory, so the share left free holds the context.
	// If that share is smaller, the context takes its place.
	contextBytes = 0.4e9
	// outside is memory of kernels, graphs and communication that PyTorch does not allocate. vLLM 0.19
	// measured 0.24 to 0.27 GiB on one H100 with most models. Other GPUs are assumed to be like it.
	// With tensor parallelism it measured 2.06 to 2.21 GiB on H100, and 0.37 GiB on four L40S.
	outside       = 0.25 * (1 << 30)
	outsidePCIe   = 0.37 * (1 << 30)
	outsideNVLink = 2.1 * (1 << 30)
	// reducing is the rate of NVLink 4, whose switches add the hidden states of GPUs. Their buffers
	// are assumed to be the reason for outsideNVLink.
	reducing = 450e9
	// sampled is the bytes of a logit in the sampler: BF16, and FP32 as logits, as probabilities and as
	// random numbers (vllm/v1/sample/sampler.py and vllm/v1/sample/ops/topk_topp_sampler.py).
	sampled = 2 + 3*4
	// drawn is the hidden states of a sampled token: the trial pass copies those of the layers, and then
	// draws as many random ones (_dummy_run and _dummy_sampler_run in vllm/v1/worker/gpu_model_runner.py).
	drawn = 2
	// Workspaces of cuBLAS: 4096 × 8 KiB on Hopper, 2 × 4096 + 8 × 16 KiB on others
	// (parseChosenWorkspaceSize in aten/src/ATen/cuda/CublasHandlePool.cpp of PyTorch). Later versions of
	// PyTorch take 32 MiB on Blackwell too, which is 24 MB more than assumed here.
	hopperWorkspace, workspace = 32 << 20, (2*4096 + 8*16) << 10
	// expanded is the most cached tokens of prompts whose latents become K and V at once. expandedContexts is
	// the contexts of a model that suffice. The trial pass has them (MLACommonMetadataBuilder and forward_impl
	// in vllm/model_executor/layers/attention/mla_attention.py).
	expanded, expandedContexts = 64 << 10, 8
	// indexedContexts is the contexts of the model whose indexer's keys a buffer holds
	// (get_max_prefill_buffer_size in vllm/v1/attention/backends/mla/indexer.py). scored is the most bytes of
	// the indexer's scores (VLLM_SPARSE_INDEXER_MAX_LOGITS_MB). vllm/model_executor/layers/sparse_attn_indexer.py
	// has both.
	indexedContexts, scored = 40, 512 << 20
)

// Room returns the memory of the machine as vLLM 0.19 divides it. Total is the memory that CUDA
// offers. Fixed has the reserved share, memory outside PyTorch, the table of rotary positions,
// and the buffers of a trial pass with the largest batch.
func (it *Iterations) Room() Room {
	r := it.r
	gpu, m := r.Machine.GPU, r.Model
	token, _ := r.activation(0)
	hidden := hardware.HalfBytes * float64(m.Hidden.Value)
	total := float64(gpu.Memory.Value) - max(0, float64(gpu.Reserved.Or(usualReserved))-contextBytes)
	fixed := max(r.Reserve*total, contextBytes) + hardware.HalfBytes*rotary(m)*float64(m.Context.Value)
	switch {
	case r.TensorParallel <= 1:
		fixed += outside
	case gpu.PeerBandwidth.Value >= reducing:
		fixed += outsideNVLink
	default:
		fixed += outsidePCIe
	}
	if gpu.Architecture == "hopper" {
		fixed += hopperWorkspace
	} else {
		fixed += workspace
	}
	// Top-k and top-p filter logits with a program for each SM or request, and a row of FP32 logits for each
	// (vllm/v1/sample/ops/topk_topp_triton.py). The number of requests is rounded up to a power of two.
	rows := min(float64(gpu.SMs.Value), math.Exp2(math.Ceil(math.Log2(float64(max(1, r.Batch))))))
	fixed += rows * r.vocabulary * 4
	buffers, layer := r.buffers(float64(r.Prefill.Chunk))
	fixed += buffers
	index, _ := r.held(r.Batch)
	return Room{Total: total, Weights: m.GPUBytes(r.Experts), Fixed: fixed,
		Token: token, Layer: layer, Kept: hidden, Output: sampled*r.vocabulary + drawn*hidden, Entry: float64(m.Entry.Value) * float64(m.Layers.Value), Index: index * float64(m.Layers.Value),
		Host: float64(r.Machine.Host.Memory.Value) / float64(max(1, r.Machine.GPUs))}
}

// buffers returns the bytes of vLLM for experts, latent attention and an indexer, in an iteration of some
// tokens: those that stay, and those that a layer frees. TensorRT-LLM has as many bytes for experts, for the tokens that
// a GPU gathers from all (getWorkspaceDeviceBufferSizes in cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm/moe_kernels.cu,
// tag v1.0.0). Its trial pass has the most tokens on each GPU (_create_dummy_context_requests in
// tensorrt_llm/_torch/pyexecutor/_util.py).
func (r *runner) buffers(tokens float64) (kept, layer float64) {
	m := r.Model
	if e := m.MoE; e != nil { // results of both products (TritonExperts in vllm/model_executor/layers/fused_moe)
		hidden, wide := float64(m.Hidden.Value), float64(e.FFN.Value)
		rows := tokens // those that a GPU gathers
		if r.Engine != nil && r.Engine.Gathers {
			rows *= float64(max(1, r.Experts))
		}
		kept = rows * float64(e.Active.Value) * (max(wide, hidden) + max(float64(m.FFNMatrices.Value-1)*wide, hidden)) * hardware.HalfBytes
	}
	l := m.Latent
	if l == nil {
		return kept, 0
	}
	expansion := float64(m.QueryHeads.Value) * float64(l.NoPE.Value+l.Value.Value) * hardware.HalfBytes
	layer = min(expanded, expandedContexts*float64(m.Context.Value)) * expansion
	if i := m.Indexer; i != nil { // the experts' buffer is used again
		kept = max(kept, indexedContexts*float64(m.Context.Value)*float64(i.Entry.Value)) + tokens*float64(i.TopK.Value)*4
		layer = max(layer, scored)
	}
	// The matrices that expand latents are kept in 16 bits too, so that queries can absorb them.
	return kept + float64(m.Layers.Value)*float64(l.KVRank.Value)*expansion, layer
}

// rotary returns the numbers of a position in the table of rotary positions, 0 without one.
func rotary(m *hardware.Model) float64 {
	switch {
	case m.Positions.Value > 0:
		return 0
	case m.Latent != nil:
		return float64(m.Latent.Rope.Value)
	}
	return float64(m.HeadDim.Value)
}
