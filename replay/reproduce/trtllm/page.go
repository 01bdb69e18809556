package trtllm

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

const head = `# TensorRT-LLM's published results

This reference is a comparison of ` + "`kvreplay serve`" + ` with throughputs and latencies that NVIDIA publishes for TensorRT-LLM, of versions [0.14 and 0.17](https://github.com/NVIDIA/TensorRT-LLM/blob/258c7540c03517def55d9a5aadfa9288af474e1b/docs/source/performance/perf-overview.md), [0.20](https://github.com/NVIDIA/TensorRT-LLM/blob/v0.20.0/docs/source/performance/perf-overview.md), [1.0](https://github.com/NVIDIA/TensorRT-LLM/blob/00f37686aa854010d68bcbd0f4ab000221541ca6/docs/source/performance/perf-overview.md) and [1.1](https://github.com/NVIDIA/TensorRT-LLM/blob/03e27c7d5ff0c6e89f8328838c0a8e64f1b34f9d/docs/source/developer-guide/perf-overview.md). It is for users who ask how far modelled servers are from real ones. ` + "`kvreplay reproduce trtllm --format markdown`" + ` prints it. A test of shorter runs notices if it is out of date. With ` + "`--format csv`" + ` it prints the published and the modelled figures, with the limits of each run. ` + "`--section throughput-1.1`" + ` computes one section.

No constant was fitted to these results. An error is modelled ÷ printed − 1. Below 0 the modelled figure is too small. Throughputs are the generated tokens per second of all GPUs together.

- The system is ` + "`tensorrt-llm`" + `: a request starts once KV of its prompt and its whole answer fits. So none is preempted. The [engine](../pipeline/OPERATORS.md#engines) is ` + "`trtllm`" + `, and from version 0.20 on ` + "`trtllm-pytorch`" + `. Scheduling is otherwise that of [serve](README.md#the-engine).
- ` + "`dgx-h200`" + ` is one H200 of a DGX. "Several h100" divide the layers of a model by tensor parallelism, or its experts and requests.
- ` + "`llama-3.1-70b`" + ` is also Llama 3.3 70B, and ` + "`deepseek-v3`" + ` is DeepSeek-R1, whose shapes are equal.
- Llama 4, gpt-oss and pipeline parallelism are left out. kvreplay has no models with their attention, and ` + "`serve`" + ` does not price stages.

## Blind errors

The first errors of each version were blind: they came before any change that the results suggested.

- Before those of 0.17, kvreplay had no system without preemption, so the system was ` + "`vllm-recompute`" + `. At most 2,048 requests and 8,192 tokens were in an iteration. Afterwards kvreplay got NVIDIA's policy and limits, from NVIDIA's page and code.
- Before those of later versions, NVFP4 weights became 16 bits before a product, and the CPU took no time. Afterwards kvreplay got FP4 products, at rates that [DeepGEMM](https://github.com/deepseek-ai/DeepGEMM/pull/348) measured on a B200 and [CUTLASS](https://github.com/NVIDIA/cutlass/pull/3272) on an RTX PRO 6000. The engine ` + "`trtllm-pytorch`" + ` got the time of its CPU from two other runs. The machine ` + "`gb200`" + ` was added before, with rates of its data sheet alone. Now it has the share of them that a B200 reaches.
- After the errors of version 1.1 were known, the limits of NVFP4 models count stored numbers, as NVIDIA's rule does. Experts of version 1.0 on several GPUs now have requests of their own, as an option there says. Version 1.1 states that too, and the three throughputs in both versions differ by less than 4 %.
- Then the engine ` + "`trtllm-pytorch`" + ` got launches without CUDA graphs, collectives of experts and uneven loads of experts. Experts load [NVFP4 weights](../kernel/README.md#routed-experts-without-waits) without waits. The [sources](../pipeline/OPERATORS.md#pytorch-backend-of-tensorrt-llm) are other measurements.
- Then that engine got the CUDA graphs of NVIDIA's published [options](../pipeline/OPERATORS.md#pytorch-backend-of-tensorrt-llm), to which batches are padded. NVIDIA states the same sizes for versions 0.20, 1.0 and 1.1. Loads and arithmetic of experts with NVFP4 weights now add up, by other [measured kernels](../kernel/README.md#routed-experts-without-waits). Tokens of experts are gathered in the types of NVIDIA's code, so those of deepseek-v3 on H200 have 16 bits. Buffers of experts hold the gathered tokens of all GPUs, as its workspace does.
- Some errors grew, because two had cancelled: those of qwen3-235b-a22b, those of qwen3-30b-a3b on two RTX PRO 6000, and the signed median of version 0.20.

## Large errors

- Weights fill most of the memory, as with llama-3.1-70b on one H100. A small error of the room for KV is then a large one of the requests that run.
- GPUs exchange over PCIe. Several L40S are modelled too slow, and one L40S too fast. The causes are unknown.
- The load is near the most that the GPUs can serve, as with llama-3.1-70b at 32 requests/s. There a small error of the throughput is a large one of the latency.
- ITL of version 0.14 is too short in most runs. The CPU and the HTTP server take time that engine ` + "`trtllm`" + ` does not count, which is a part of the cause.
- The CPU limits qwen3-30b-a3b on B200 and GB200. Prompts of 2,048 tokens and more are too fast there, for reasons unknown. NVIDIA's figures of short requests are smaller on GB200, so its CPU is slower than those of which the engine has the time.
- Experts on several GPUs: steps of Qwen3 are too short. Rates are then too high, by about 13 % on two GPUs, 19 % on four and 32 % on eight. The cause is unknown.
- Prompts and attention of deepseek-v3 on H200 are too fast, for reasons unknown.

`

// render writes the page: the summaries, then the method of each section.
func render(w io.Writer, r *reproduce.Reproduced, markdown bool) error {
	var b strings.Builder
	title := "%s\n\n"
	if markdown {
		b.WriteString(head)
		title = "## %s\n\n"
	}
	all, err := results(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, title, "Summary")
	for _, t := range []*table.Table{byVersion(all), byModel(all), byMachine(all)} {
		if markdown {
			b.WriteString(t.RawMarkdown() + "\n")
		} else {
			b.WriteString(t.Text() + "\n")
		}
	}
	b.WriteString("The signed median keeps the signs of errors. The other columns are the median, the 95th percentile and the largest |error|.\n")
	for i := range r.Sections {
		s := &r.Sections[i]
		fmt.Fprintf(&b, "\n"+title+"%s\n\n", s.Title, s.Method)
		for _, a := range s.Assumptions {
			fmt.Fprintf(&b, "- %s\n", a)
		}
	}
	_, err = io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// result is a line of the report. blind is its error before the model changed, NaN if that is not recorded.
type result struct {
	version, figure, model, gpus, machine string
	error, blind                          float64
}

// results returns all lines.
func results(r *reproduce.Reproduced) (all []result, err error) {
	blind := map[string]float64{}
	for _, of := range releases[1:] {
		rows, err := of.rows("blind-")
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			for name := range row {
				if percent, err := strconv.ParseFloat(row.Text(name), 64); err == nil {
					blind[fmt.Sprintf("%s %s, %d × %s, %s", of.section(), row["model"], row["gpus"], row["machine"], name)] = percent / 100
				}
			}
		}
	}
	for i := range r.Sections {
		s := &r.Sections[i]
		for k := range s.Lines {
			l := &s.Lines[k]
			parts := strings.SplitN(l.Item, ", ", 3)
			gpus, machine, _ := strings.Cut(parts[1], " × ")
			version, found := strings.CutPrefix(s.Name, "throughput-")
			if !found {
				version = "0.14"
			}
			x := result{version, "throughput", parts[0], gpus, machine, float64(l.Error), math.NaN()}
			if _, kind, ok := strings.Cut(parts[2], ": "); ok {
				x.figure = kind
			}
			if e, ok := blind[s.Name+" "+l.Item]; ok {
				x.blind = e
			}
			all = append(all, x)
		}
	}
	return all, nil
}

// group adds a row for each distinct list of texts that of returns, in the order of the results.
func group(t *table.Table, all []result, of func(x *result) []string, cells func(of []result) []string) *table.Table {
	for _, g := range slice.Group(all, func(x *result) string { return strings.Join(of(x), "|") }) {
		t.AddTexts(append(of(&g[0]), cells(g)...))
	}
	return t
}

// blind017 are the blind errors of version 0.17, of which only these are recorded.
var blind017 = []string{"", "8.3 %", "28.5 %", "43.9 %"}

// byVersion has the errors of throughputs, blind and today.
func byVersion(all []result) *table.Table {
	t := table.New("version", "results", "blind: signed median", "median", "95th", "worst", "now: signed median", "median", "95th", "worst").RightFrom(1)
	return group(t, throughputs(all), func(x *result) []string { return []string{x.version} }, func(g []result) []string {
		blind := blind017
		if g[0].version != releases[0].version {
			blind = distribution(g, func(x *result) float64 { return x.blind })
		}
		return slices.Concat([]string{fmt.Sprint(len(g))}, blind, now(g))
	})
}

// byModel has the versions whose blind errors are recorded.
func byModel(all []result) *table.Table {
	t := table.New("GPU", "model", "results", "blind: signed median", "median", "now: signed median", "median", "95th", "worst").RightFrom(2)
	later := slice.Filter(throughputs(all), func(x result) bool { return !math.IsNaN(x.blind) })
	slices.SortStableFunc(later, func(a, b result) int { return strings.Compare(a.machine+a.model, b.machine+b.model) })
	return group(t, later, func(x *result) []string { return []string{x.machine, x.model} }, func(g []result) []string {
		blind := distribution(g, func(x *result) float64 { return x.blind })
		return slices.Concat([]string{fmt.Sprint(len(g))}, blind[:2], now(g))
	})
}

// byMachine has the other sections, by whether layers are divided.
func byMachine(all []result) *table.Table {
	t := table.New("version", "figure", "GPUs", "results", "now: signed median", "median", "95th", "worst").RightFrom(3)
	first := slice.Filter(all, func(x result) bool { return math.IsNaN(x.blind) })
	return group(t, first, func(x *result) []string {
		several := ""
		if x.gpus != "1" {
			several = "several "
		}
		return []string{x.version, x.figure, several + x.machine}
	}, func(g []result) []string { return append([]string{fmt.Sprint(len(g))}, now(g)...) })
}

func throughputs(all []result) []result {
	return slice.Filter(all, func(x result) bool { return x.figure == "throughput" })
}

func now(g []result) []string { return distribution(g, func(x *result) float64 { return x.error }) }

// distribution returns the cells of a summary for some errors.
func distribution(g []result, of func(x *result) float64) []string {
	var errors, sizes []float64
	for i := range g {
		errors, sizes = append(errors, of(&g[i])), append(sizes, math.Abs(of(&g[i])))
	}
	slices.Sort(errors)
	slices.Sort(sizes)
	cells := []string{fmt.Sprintf("%+.1f %%", 100*slice.Quantile(errors, 0.5))}
	for _, share := range []float64{0.5, 0.95, 1} {
		cells = append(cells, fmt.Sprintf("%.1f %%", 100*slice.Quantile(sizes, share)))
	}
	return cells
}
