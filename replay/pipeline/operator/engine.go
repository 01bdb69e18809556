package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// Engine is the time that a serving engine or a research framework adds to kernels. Its numbers are
// published measurements, or follow from them.
type Engine struct {
	Name string
	Text string // a phrase for lists
	// Gap is the idle time of the GPU between two kernels, in seconds. It counts with the kernel
	// model. The roofline has no kernels.
	Gap float64
	// Layer is the time in which the CPU launches the kernels of a layer, in seconds. A layer that
	// computes for a shorter time takes this time.
	Layer float64
	// Python reports whether Python launches the kernels.
	Python bool
	// Step is the time of the CPU between two steps that the GPU waits for, in seconds.
	Step float64
	// Token is the further time between steps for each token that a step samples, in seconds.
	Token float64
	// Host is the time of the CPU for a step, next to the GPU, in seconds. The layers of a step take at
	// least this time together.
	Host float64
	// HostRequest is the further such time for each request of a step, in seconds.
	HostRequest float64
	// Reduces is the program that sums hidden states over GPUs, whose time is that of the GPU.
	Reduces collective.Method
	// Apart is set if requests that decode attend in a kernel of their own next to prompts, on all GPUs.
	Apart bool
	// Start is the time of the CPU to start an all-reduce, in seconds. It adds to Layer, twice a layer.
	Start float64
	// Eager is the time in which the CPU launches a kernel of a step without a CUDA graph, in seconds. Steps with parts of
	// prompts have none.
	Eager float64
	// Graphs are the batches of which the engine captures CUDA graphs, in ascending order. A step without prompts
	// has as many tokens as the next of them. It is nil if tokens are not padded.
	Graphs []int64
	// Gathers is set if GPUs that share routed experts exchange tokens by an all-gather and a reduce-scatter.
	Gathers bool
	// Skew is the standard deviation of the tokens that routed experts get, divided by their mean. It counts if
	// several GPUs share them.
	Skew float64
}

// Two runs of the PyTorch backend of TensorRT-LLM that the CPU limits. Their sources stand at engines.
const (
	pyTorchFew, pyTorchMany         = 64., 1536.                   // requests
	pyTorchFewStep, pyTorchManyStep = pyTorchFew / 13806, 45.11e-3 // seconds
	pyTorchRequest                  = (pyTorchManyStep - pyTorchFewStep) / (pyTorchMany - pyTorchFew)
)

// A step of DeepSeek-R1 on eight B200, and its time without CUDA graphs divided by that with them. The CPU then
// launches the kernels of launches. The sources stand at engines.
const (
	graphsStep, eagerSteps = 1 / 11.9263, 1.22
	deepSeekLaunches       = 3*14 + 58*23
)

// pyTorchGraphs are the batch sizes of CUDA graphs in the options of NVIDIA's benchmarks of versions 0.20 to 1.1. The
// source stands at engines.
var pyTorchGraphs = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192}

// Tokens of 32 GPUs with 8 experts of DeepSeek-R1 each, measured with TensorRT-LLM without its load balancer.
// Those of an expert follow if experts are independent. The source stands at engines.
const (
	gpuTokens, gpuDeviation = 1024, 491.651199 // mean and standard deviation of a GPU's tokens
	gpuExperts              = 8
)

// engines are in the order of help.
//
// The gaps are those of a sequence of kernels that run for 2.9 us each on a V100 with CUDA 10.1. A
// launch of each takes 3.8 us, and a graph of all takes 3.4 us each. Source: NVIDIA, Getting Started
// with CUDA Graphs, https://developer.nvidia.com/blog/cuda-graphs/.
//
// GPT-2 has 12 layers and decodes 207.7 tokens/s with vLLM and 205.1 with SGLang at batch 1 without
// graphs. With graphs they decode 766.6 and 964.6, so that the CPU limits the former. The mean is
// 4.85 ms for 12 layers. Source: DeepSpeed, pull request 8352, GPT-2 on an H200,
// https://github.com/deepspeedai/DeepSpeed/pull/8352.
//
// Llama-7B has 32 layers and decodes 25.5 tokens/s at batch 1, limited by the CPU. Source: PyTorch,
// Accelerating Generative AI with PyTorch II, Llama-7B on an A100,
// https://pytorch.org/blog/accelerating-generative-ai-2/.
//
// Continuous batching of 32 requests of 8192 tokens takes 300.6 s, of which the GPU waits 24.0 %
// for the CPU. That is 8.8 ms for each of 8192 steps. Source: Hugging Face, Unlocking asynchronicity
// in continuous batching, 8B on an H200, https://huggingface.co/blog/continuous_async.
//
// The vLLM engines wait for the CPU between steps. Vidur timed the parts of a step outside the model in
// Sarathi-Serve, a fork of vLLM, with Llama-2-7B on an A100: scheduling, preparation of inputs,
// sampler, processing of outputs and communication. Lines through the medians of 8 to 64 requests
// give their sum, less the modelled logits and sampling. Since v0.6.0 vLLM processes outputs while
// the GPU runs. Without that part the line is that of vllm-0.6. Source: Vidur,
// data/profiling/a100/cpu_overheads.csv, commit 0633efae, https://github.com/microsoft/vidur.
//
// Hazy Research decodes Llama-3.2-1B 2.5 times as fast as vLLM of May 2025. It reads 2.47 GB a step,
// at 78 % of the H100's 3.35 TB/s. So vLLM takes 2.36 ms. Modelled without CPU, a step takes 1.56 ms. At
// 256 requests the GPU of vLLM waits 5 to 6 ms between steps. Sources: Hazy Research, Look Ma, No
// Bubbles, https://hazyresearch.stanford.edu/blog/2025-05-27-no-bubbles, and vLLM, pull request 11133,
// https://github.com/vllm-project/vllm/pull/11133.
//
// FasterTransformer launches 9 kernels for a layer that decodes, from C++: a norm, four products, attention,
// an activation, and two kernels that add the residual. The CPU launches each in at most 3.8 us (the same
// page of NVIDIA). Source: ParallelGptDecoder.cc, DecoderSelfAttentionLayer.cc and FfnLayer.cc of
// https://github.com/NVIDIA/FasterTransformer, commits 4c014fba, 0311bc6a and 6ca2d586. A thread that starts an
// all-reduce of NCCL on each of four to eight GPUs takes 4.2 us for each GPU. The all-reduces of 8 to 128
// bytes then wait for the CPU. Source: https://github.com/NVIDIA/nccl-tests/issues/123.
//
// The PyTorch backend of TensorRT-LLM prepares a step in Python while the GPU runs the one before it. A line
// through two runs that the CPU limits gives its time. Llama-3.1-8B in FP8 decodes 13,806 tokens/s for 64
// requests on a B200, with 0.58 ms of GPU idle in each step. A step of gpt-oss-120b takes 45.11 ms on each of two
// GB200 with 1536 requests. Sources: TensorRT-LLM, issue 13957 and pull request 10273,
// https://github.com/NVIDIA/TensorRT-LLM/pull/10273.
//
// The backend captures graphs of steps without prompts. DeepSeek-R1 in NVFP4 decodes 11.93 tokens/s for each of 3072
// requests on eight B200. Graphs raise that by 22 %. Sources: TensorRT-LLM, docs/source/blogs,
// Best_perf_practice_on_DeepSeek-R1_in_TensorRT-LLM.md, commit 01c4ece9, and
// tech_blog/blog3_Optimizing_DeepSeek_R1_Throughput_on_NVIDIA_Blackwell_GPUs.md, commit 02643c1f,
// https://github.com/NVIDIA/TensorRT-LLM.
//
// A batch is padded to the next size of a graph. The largest size is that of the executor. Both follow from
// _get_padded_batch and _filter_cuda_graph_batch_sizes of tensorrt_llm/_torch/pyexecutor/model_engine.py, tag v1.0.0. GPUs with
// requests of their own pad to the largest batch of all, and none has a graph next to a prompt of one. Sizes are
// those of docs/source/performance/perf-overview.md, commits 00f37686 (1.0) and tag v0.20.0, and of
// docs/source/developer-guide/perf-overview.md, commit 03e27c7d (1.1), https://github.com/NVIDIA/TensorRT-LLM.
//
// GPUs with requests of their own gather
// tokens by NCCL and scatter the sums (allgather and reducescatter of fused_moe_cutlass.py). The tokens of GPUs
// differ. Sources: TensorRT-LLM, tensorrt_llm/_torch/modules/fused_moe/fused_moe_cutlass.py, commit 000a01de, and
// examples/wide_ep/ep_load_balancer/README.md, commit 2a595f81, https://github.com/NVIDIA/TensorRT-LLM.
//
// vLLM has its own all-reduce kernels since v0.3 (pull request 2192). SGLang has such kernels too, and gpt-fast
// those of PyTorch (ENABLE_INTRA_NODE_COMM in its README). TensorRT-LLM has its own. The builds of v0.6.1 in
// docs/source/performance.md leave them out (--use_custom_all_reduce), and those of NeMo's export too
// (nemo/export/trt_llm/tensorrt_llm_build.py). By default FasterTransformer and TurboMind of LMDeploy 0.1 use
// NCCL (enable_custom_all_reduce is 0 in their configurations). DeepSpeed-Inference and Accelerate call
// NCCL through PyTorch. Without graphs the CPU
// starts an all-reduce of vLLM 0.20 in 22 us on a host of H100. It takes 46 us on one of A100. These are
// medians of the eager rows below 128 KiB of aiconfigurator (replay/collective/data/all-reduce.csv names
// the files). Engine eager has the former, as it comes from an H200. Engine pytorch has the latter,
// which is assumed for NCCL.
var engines = []*Engine{
	{Name: "graphs", Text: "CUDA graphs, CPU work hidden (vLLM since 0.14, SGLang)", Gap: 0.5e-6, Reduces: collective.Kernels},
	{Name: "trtllm", Text: "as graphs, with a kernel of its own for decoding next to prompts (TensorRT-LLM)", Gap: 0.5e-6, Reduces: collective.Kernels, Apart: true},
	{Name: "trtllm-pytorch", Text: "TensorRT-LLM's PyTorch backend (0.19 to 1.1), whose CPU may take longer than the GPU", Gap: 0.5e-6, Reduces: collective.Kernels, Apart: true,
		Host: pyTorchFewStep - pyTorchFew*pyTorchRequest, HostRequest: pyTorchRequest,
		Eager: eagerSteps * graphsStep / deepSeekLaunches, Graphs: pyTorchGraphs, Gathers: true, Skew: gpuDeviation / gpuTokens * math.Sqrt(gpuExperts)},
	{Name: "cpp", Text: "C++ without CUDA graphs (FasterTransformer, LMDeploy 0.1, TensorRT-LLM 0.6)", Gap: 0.9e-6, Layer: 9 * 3.8e-6, Start: 4.2e-6},
	{Name: "vllm-0.8", Text: "vLLM 0.8 to 0.13 (V1), whose GPU waits for the CPU between steps", Gap: 0.5e-6, Step: 0.784e-3, Token: 18.4e-6, Reduces: collective.Kernels},
	{Name: "vllm-0.6", Text: "vLLM 0.6 and 0.7, whose GPU waits longer", Gap: 0.5e-6, Step: 0.975e-3, Token: 42.5e-6, Reduces: collective.Kernels, Apart: true},
	{Name: "vllm-0.5", Text: "vLLM up to 0.5, whose GPU also waits for the processing of outputs", Gap: 0.5e-6, Step: 1.13e-3, Token: 105e-6, Reduces: collective.Kernels, Apart: true},
	{Name: "eager", Text: "a serving engine without CUDA graphs", Gap: 0.9e-6, Layer: 4.85e-3 / 12, Python: true, Reduces: collective.Kernels, Start: 22e-6},
	{Name: "pytorch", Text: "plain PyTorch (FlexGen, Accelerate)", Gap: 0.9e-6, Layer: 1 / 25.5 / 32, Python: true, Start: 46e-6},
	{Name: "transformers", Text: "continuous batching of Transformers, not asynchronous", Gap: 0.5e-6, Step: 0.24 * 300.6 / 8192},
	{Name: "none", Text: "kernels without gaps", Reduces: collective.Kernels},
}

// DefaultEngine is the engine of commands that name none.
const DefaultEngine = "graphs"

// ParseEngine returns the engine with a name. Case and separators do not count.
func ParseEngine(name string) (*Engine, error) {
	return names.FindIn(engines, "engine", name, func(e *Engine) names.Name { return names.Name{Name: e.Name} })
}

// EngineNames returns the names of the engines, in the order of help.
func EngineNames() []string { return slice.Map(engines, func(e *Engine) string { return e.Name }) }

// EngineList returns the engines for help, one per line.
func EngineList() string {
	return strings.Join(slice.Map(engines, func(e *Engine) string { return listed(e.Name, e.Text) }), "\n")
}

// Waits reports whether the GPU waits for the CPU between steps. A nil engine does not.
func (e *Engine) Waits() bool { return e != nil && e.Step > 0 }

// Note states the times of the engine, "" if none counts or the engine is nil. Gaps count if operators are kernels, and
// starts of all-reduces if GPUs divide layers.
func (e *Engine) Note(kernels, divided bool) string {
	if e == nil {
		return ""
	}
	var parts []string
	if kernels && e.Gap > 0 {
		parts = append(parts, fmt.Sprintf("%.3g us between kernels", 1e6*e.Gap))
	}
	if e.Layer > 0 {
		parts = append(parts, fmt.Sprintf("at least %.3g ms a layer", 1e3*e.Layer))
	}
	if divided && e.Start > 0 {
		parts = append(parts, fmt.Sprintf("%.3g us more for each all-reduce", 1e6*e.Start))
	}
	if e.Waits() {
		parts = append(parts, fmt.Sprintf("%.3g ms between steps", 1e3*e.Step))
	}
	if e.Host > 0 {
		parts = append(parts, fmt.Sprintf("the layers take at least %.3g ms a step and %.3g us a request", 1e3*e.Host, 1e6*e.HostRequest))
	}
	if e.Eager > 0 {
		parts = append(parts, fmt.Sprintf("at least %.3g us a kernel without a CUDA graph", 1e6*e.Eager))
	}
	if e.Token > 0 {
		parts = append(parts, fmt.Sprintf("%.3g us more a token", 1e6*e.Token))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("engine %s: %s", e.Name, strings.Join(parts, ", "))
}

// Launch returns the time in which the CPU launches a layer, in seconds. divided layers have two
// all-reduces. A nil engine takes no time.
func (e *Engine) Launch(divided bool) float64 {
	switch {
	case e == nil:
		return 0
	case divided:
		return e.Layer + 2*e.Start
	}
	return e.Layer
}

// Sums returns the program that sums hidden states over GPUs.
func (e *Engine) Sums() collective.Method {
	if e == nil {
		return collective.Kernels
	}
	return e.Reduces
}

// Graph returns the tokens of the CUDA graph for a batch that decodes. The engine captures no graph of more requests
// than most, and one of most in their place. captured is false if the batch is beyond Graphs and runs without one.
func (e *Engine) Graph(batch, most int64) (tokens int64, captured bool) {
	i, _ := slices.BinarySearch(e.Graphs, batch)
	if i == len(e.Graphs) {
		return batch, false
	}
	return max(batch, min(e.Graphs[i], most)), true
}

// launches returns the number of kernels of a layer: norms, products, rotary embedding, attention and the FFN.
func (r *Roofline) launches(layer int) float64 {
	m := r.Model
	sum := 4 + len(r.first) + len(r.second) + len(r.out)
	if m.Latent != nil || m.QKNorm {
		sum += 2
	}
	const dense = 3 // two products and an activation
	stored, active := m.FFNParameters(layer)
	if stored == active {
		return float64(sum + dense)
	}
	if sum += 2 + kernel.ExpertKernels; m.MoE.Shared.Value > 0 {
		sum += dense + 1
	}
	return float64(sum)
}

// launched are operators of an engine whose CPU takes time.
type launched struct {
	Pricer
	Config
	roofline *Roofline
}

// Layer makes the last operator of a layer longer until the CPU has launched the layer with its
// all-reduces, or its kernels without a graph. A layer also takes at least its part of Engine.Host. The CPU does not run ahead while the GPU waits
// for a fetch.
func (c *launched) Layer(layer int, l *Load) (o Times, err error) {
	if o, err = c.Pricer.Layer(layer, l); err != nil {
		return o, err
	}
	e, busy := c.Engine, o.Project+o.Pre+o.Post+o.Again+o.AttendChunks+2*c.Group.AllReduce(l.Queries)
	if c.Dense {
		busy += o.AttendAll
	} else {
		busy += o.Select + o.Attend
	}
	launch := e.Launch(c.Group != nil)
	if l.Eager || len(l.Chunks) > 0 {
		launch = max(launch, e.Eager*c.roofline.launches(layer)-o.Dispatch-o.Combine)
	}
	o.Post += max(0, launch-busy)
	if e.Host > 0 {
		host := (e.Host + e.HostRequest*(l.Requests+float64(len(l.Chunks)))) / float64(c.Model.Layers.Value)
		o.Post += max(0, host-max(busy, launch)-o.Dispatch-o.Combine)
	}
	return o, nil
}

// Output adds the time between steps.
func (c *launched) Output(queries float64) (float64, error) {
	seconds, err := c.Pricer.Output(queries)
	return seconds + c.Engine.Step + queries*c.Engine.Token, err
}
