package advice

import (
	"fmt"
	"math"
	"strconv"
)

// Engine has the options of a serving engine that give the served choice.
type Engine struct {
	Name string `json:"name"`
	// Config is the text to paste, empty if the engine has no options for the choice.
	Config string `json:"config"`
	// Notes say what the options do not give, or could not be confirmed.
	Notes []string `json:"notes"`
	// Sources are the public documents that state the names and the meaning of the options.
	Sources []string `json:"sources"`
}

// Sources of the options, read in November 2026.
const (
	// hisparseGuide: top_k is the number of selected entries. device_buffer_size has the token slots of
	// a request's buffer on the GPU. host_to_device_ratio is the logical pool ÷ the device pool.
	// Replacement is LRU. It needs a decode instance and a model with DeepSeek sparse attention.
	hisparseGuide = "https://github.com/sgl-project/sglang/blob/1547e5fdb89720101f7091dd06169a9942efe61f/docs/advanced_features/hisparse_guide.md"
	// hisparseParser: device_buffer_size must be at least top_k.
	hisparseParser = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/mem_cache/sparsity/factory.py"
	// offloadConfig: gpu_cache_factor is the cache of a request in selections of one step, at least 1.
	// host_history_size is pinned host memory of a rank in bytes.
	offloadConfig = "https://nvidia.github.io/TensorRT-LLM/llm-api/reference/SparseKvCacheOffloadConfig.html"
	// offloadPending: an open pull request in which enabling the offload is still an error.
	offloadPending = "https://github.com/NVIDIA/TensorRT-LLM/pull/19502"
	// vllmHiSparse: merged, host-resident KV with a hot buffer for each request and LRU.
	vllmHiSparse = "https://github.com/vllm-project/vllm/pull/53781"
	// vllmConnector: merged, HiSparseConnector with host_pool_gib turns it on, and hisparse_config only
	// tunes device_buffer_size.
	vllmConnector = "https://github.com/vllm-project/vllm/pull/57041"
	// vllmCache: kv_offloading_size is in GiB over all tensor-parallel ranks, kv_offloading_backend is
	// native or lmcache.
	vllmCache = "https://github.com/vllm-project/vllm/blob/002f10e0cfa1373a19a0d2756598a34b700d20e5/vllm/config/cache.py"
	// vllmOffloading: offloaded blocks extend the prefix cache.
	vllmOffloading = "https://github.com/vllm-project/vllm/blob/0078e9d2b020be709d7d756877106fd1015ea4f4/docs/features/kv_offloading_usage.md"
)

// engines returns the options of each engine for the served choice. If none meets the SLO, they are
// those of the advised choice.
func (q *Question) engines(a *Advice) []Engine {
	c := a.Served
	if c == nil {
		c = &a.Advised
	}
	sglang := Engine{Name: "SGLang", Notes: []string{}, Sources: []string{hisparseGuide, hisparseParser}}
	trtllm := Engine{Name: "TensorRT-LLM", Notes: []string{}, Sources: []string{offloadConfig, offloadPending}}
	vllm := Engine{Name: "vLLM", Notes: []string{}, Sources: []string{vllmHiSparse, vllmConnector}}
	switch {
	case a.Advised.Policy == "":
		for _, e := range []*Engine{&sglang, &trtllm, &vllm} {
			e.Notes = append(e.Notes, "no option is needed: all KV stays on the GPU")
		}
	case q.Model.Indexer == nil:
		sglang.Notes = append(sglang.Notes, "HiSparse needs a model with DeepSeek sparse attention")
		trtllm.Notes = append(trtllm.Notes, "the offload needs a model with a sparse attention of its own")
		vllm.Config = fmt.Sprintf("--kv-offloading-size %d --kv-offloading-backend native", gibibytes(c.Host))
		vllm.Notes = append(vllm.Notes, "this extends the prefix cache: KV of a running request stays on the GPU, so the figures above do not apply")
		vllm.Sources = []string{vllmCache, vllmOffloading}
	default:
		q.sparseEngines(a, c, &sglang, &trtllm, &vllm)
	}
	return []Engine{sglang, trtllm, vllm}
}

// sparseEngines sets the options for a model with an indexer.
func (q *Question) sparseEngines(a *Advice, c *Choice, sglang, trtllm, vllm *Engine) {
	// A request has c.Entries slots on the GPU and its whole context on the host. With a smaller ratio,
	// fewer requests would fit than have a buffer.
	ratio := int(math.Ceil(float64(q.Context) / float64(c.Entries)))
	sglang.Config = fmt.Sprintf(`--enable-hisparse --hisparse-config '{"top_k": %d, "device_buffer_size": %d, "host_to_device_ratio": %d}'`, a.TopK, c.Entries, ratio)
	sglang.Notes = append(sglang.Notes, fmt.Sprintf("on the decode instance of a disaggregated deployment, with up to %d running requests a GPU", c.Batch))
	l := q.Model.Latent
	if l != nil && float64(q.Model.Entry.Value) < 2*float64(l.KVRank.Value+l.Rope.Value) { // smaller than in 16 bits
		sglang.Config += " --kv-cache-dtype fp8_e4m3"
	}
	factor := float64(c.Entries) / float64(a.TopK)
	trtllm.Config = fmt.Sprintf("SparseKvCacheOffloadConfig(gpu_cache_factor=%s, host_history_size=%d)", strconv.FormatFloat(factor, 'f', -1, 64), int64(math.Ceil(c.Host)))
	trtllm.Notes = append(trtllm.Notes,
		"the argument that takes this object could not be confirmed",
		"in an open pull request, enabling the offload for DeepSeek-V4 still raises NotImplementedError")
	vllm.Config = fmt.Sprintf(`--max-num-seqs %d --attention-config '{"hisparse_config": {"device_buffer_size": %d}}' --kv-transfer-config '{"kv_connector": "HiSparseConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"host_pool_gib": %d}}'`,
		c.Batch, c.Entries, gibibytes(c.Host))
	vllm.Notes = append(vllm.Notes, "vLLM also keeps whole pages on the GPU while there is room, which the figures leave out")
	if a.Context == int64(c.Entries) {
		sglang.Notes = append(sglang.Notes, "the buffer holds the whole context")
	}
}

func gibibytes(bytes float64) int64 { return int64(math.Ceil(bytes / (1 << 30))) }
