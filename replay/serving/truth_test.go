package serving_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/tabletest"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/serving/servingtest"
)

// recording is a bundled run.
type recording struct {
	all      []serving.Request
	recorded []serving.Recorded
	series   serving.Series
}

// differences serves the requests and compares the run with the recorded one.
func (r *recording) differences(t *testing.T, engine serving.Engine) []serving.Difference {
	t.Helper()
	e, err := serving.NewServed(context.Background(), engine, serving.Admission{})
	fatal.If(t, err)
	compared := serving.Comparison{Requests: r.recorded, Series: r.series}
	from := func(float64) (serving.Source, func(), error) { return serving.FromSlice(r.all), func() {}, nil }
	_, err = e.Summarise(context.Background(), from, 1, compared.Rows())
	fatal.If(t, err)
	return compared.Differences()
}

// percent is an error as RUNS.md writes it. A mean distance has no sign.
func percent(d serving.Difference) string {
	s := strings.Replace(fmt.Sprintf("%+.1f %%", 100*d.Error), "-", "−", 1)
	if d.Unit == "mean distance" {
		return s[1:]
	}
	return s
}

func readRecording(t *testing.T, name string) (r recording) {
	t.Helper()
	f, err := os.Open(name + ".csv")
	fatal.If(t, err)
	defer f.Close()
	in := csv.NewReader(f)
	in.Comment = '#'
	lines, err := in.ReadAll()
	fatal.If(t, err)
	for _, line := range lines[1:] {
		var v [5]float64
		for i, text := range line {
			if v[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		ns := func(s float64) int64 { return int64(math.Round(s * 1e9)) }
		r.all = append(r.all, serving.Request{Arrival: ns(v[0]), Input: int(v[1]), Output: int(v[2])})
		r.recorded = append(r.recorded, serving.Recorded{Arrival: ns(v[0]), First: ns(v[3]), Last: ns(v[4]), Output: int(v[2])})
	}
	r.series = seriesOf(t, name+"-series.csv")
	return r
}

// seriesOf returns the series of a file.
func seriesOf(t *testing.T, name string) serving.Series {
	t.Helper()
	f, err := os.Open(name)
	fatal.If(t, err)
	defer f.Close()
	s, err := serving.ReadSeries(f, name)
	fatal.If(t, err)
	return s
}

// The model meets a recorded run within the aims. Nothing is fitted to the run. Its number of blocks
// is a setting of the engine. Derived from the machine alone, the number has the stated error.
func TestRecordedRun(t *testing.T) {
	r := readRecording(t, "data/vllm-rtx4090")
	lib, err := hardware.Load("")
	fatal.If(t, err)
	machine, err := lib.Machine("rtx4090")
	fatal.If(t, err)
	model, err := lib.Model("llama-3.1-8b")
	fatal.If(t, err)
	engine, err := operator.ParseEngine(operator.DefaultEngine)
	fatal.If(t, err)
	measured := map[string]float64{"TPOT mean": 0.05, "TPOT p50": 0.05, "TPOT p90": 0.15, "TPOT p99": 0.15, "TTFT mean": 0.1, "TTFT p50": 0.1, "TTFT p90": 0.1,
		"TTFT p99": 0.1, "KV blocks": 0, "running requests": 0.1, "waiting requests": 0.1, "KV blocks in use": 0.1}
	fewer := "| removed input | TPOT mean, p99 | TTFT mean | running | KV blocks |\n|---|---|---|---|---|\n"
	for _, c := range []struct {
		name    string
		kernels kernel.Source
		blocks  int
		aims    map[string]float64
	}{
		{"", kernel.Fitted(lib), 2587, measured},
		{"no measured kernel (`--kernels roofline`)", kernel.None, 2587, map[string]float64{"TPOT mean": 0.15, "TPOT p50": 0.15, "TPOT p90": 0.15, "TPOT p99": 0.15}},
		{"no number of blocks (without `--kv-blocks`)", kernel.Fitted(lib), 0, map[string]float64{"TPOT mean": 0.05, "TTFT mean": 0.1, "KV blocks": 0.075}},
	} {
		found, errors := 0, map[string]string{}
		for _, d := range r.differences(t, serving.Engine{
			Options: pipeline.Options{Machine: machine, Model: model, Kernels: c.kernels, Engine: engine, Reserve: 0.1},
			Preempt: pipeline.ByRecompute, BlockTokens: 16, Budget: 2048, MaxRunning: 256, Blocks: c.blocks}) {
			errors[d.Figure] = percent(d)
			aim, ok := c.aims[d.Figure]
			if !ok {
				continue
			}
			found++
			if math.Abs(d.Error) > aim {
				t.Errorf("%s: %s is %g, recorded %g: %.1f %%, the aim is %.0f %%", c.name, d.Figure, d.Modelled, d.Recorded, 100*d.Error, 100*aim)
			}
		}
		if found != len(c.aims) {
			t.Errorf("%s: %d of %d figures", c.name, found, len(c.aims))
		}
		if c.name != "" {
			blocks := "given"
			if c.blocks == 0 {
				blocks = errors["KV blocks"]
			}
			fewer += fmt.Sprintf("| %s | %s, %s | %s | %s | %s |\n", c.name, errors["TPOT mean"], errors["TPOT p99"], errors["TTFT mean"], errors["running requests"], blocks)
		}
	}
	tabletest.In(t, "RUNS.md", fewer, *update, updates)
}

// logged holds numbers of blocks that vLLM 0.19 logged. On H100 GPUs with 80 GB it had
// gpu_memory_utilization 0.95, 8192 tokens an iteration and 1024 running requests. Source:
// accuracy/results/v0.19.0/results_raw.csv of https://github.com/jgchn/llm-d-planner. The others
// had the defaults of the engine. Sources: blogposts/content/1_vllm of
// https://github.com/dariustanrd/tokenkaki for A100, https://github.com/gnosia93/eks-agentic-ai
// for L40S. vLLM 0.28 on the Server Edition of RTX PRO 6000 had gpu_memory_utilization 0.92 and 128
// running requests: bench/examples/RTXPRO6000 of https://github.com/casys-kaist/LLMServingSim. Its
// run of qwen3-30b-a3b had 75638 blocks on two GPUs that share experts, and that of DeepSeek-V3.2 blocks of
// 64 tokens. On RTX A6000, vLLM 0.13 had 128 running requests and 0.11 had 256:
// evaluation/memory/vllm_log/SD and evaluation/artifacts/figure_6/raw_data of the same repository.
var logged = []struct {
	machine, model string
	gpus, blocks   int
}{
	{"h100", "llama-3.1-8b", 1, 29751}, {"h100", "llama-3.1-8b", 2, 65293}, {"h100", "llama-3.1-8b", 4, 138112},
	{"h100", "qwen2.5-7b", 1, 68500}, {"h100", "qwen2.5-7b", 2, 149412}, {"h100", "qwen2.5-7b", 4, 315205},
	{"h100", "qwen3-8b", 1, 26168}, {"h100", "qwen2.5-72b", 2, 1245},
	{"h100", "qwen3-30b-a3b", 1, 10518}, {"h100", "deepseek-v2-lite", 1, 94097}, {"h100", "mixtral-8x7b", 2, 29121},
	{"a100-40", "qwen3-8b", 1, 8810}, {"l40s", "qwen2.5-72b", 4, 4189},
	{"rtx-pro-6000-server", "llama-3.1-8b", 1, 35913}, {"rtx-pro-6000-server", "qwen3-32b", 2, 28884}, {"rtx-pro-6000-server", "qwen3-30b-a3b", 1, 37819},
	{"rtx-pro-6000-server", "deepseek-v3.2-16l64e", 1, 49181}, {"rtx-a6000", "llama-3.1-8b", 1, 13844}, {"rtx-a6000", "llama-3.1-8b", 1, 13545},
}

// The number of blocks that fit is that of vLLM, which counts one more without content. The page has
// the same numbers.
func TestBlocksOfVLLM(t *testing.T) {
	page, err := os.ReadFile("RUNS.md")
	fatal.If(t, err)
	lib, err := hardware.Load("")
	fatal.If(t, err)
	for _, l := range logged {
		machine, err := lib.Machine(l.machine)
		fatal.If(t, err)
		name, block := l.model, 16
		if _, err := os.Stat("testdata/" + name); err == nil { // no bundled model
			name, block = "testdata/"+name+"/config.json", 64
		}
		model, err := lib.ModelOrConfig(name)
		fatal.If(t, err)
		o := pipeline.Options{Machine: machine, Model: model, Reserve: 0.05, TensorParallel: l.gpus, Network: pipeline.Networks(lib)}
		budget, running, within := 8192, 1024, 0.002
		switch l.machine {
		case "h100":
		case "rtx-pro-6000-server":
			o.Reserve, budget, running, within = 0.08, 2048, 128, 0.03
		case "rtx-a6000":
			o.Reserve, budget, running, within = 0.1, 2048, 256, 0.02
			if l.blocks == 13844 {
				running = 128
			}
		default:
			o.Reserve, budget, running = 0.1, 2048, 256
		}
		if model.MoE != nil {
			o.Experts, within = 1, 0.004
			switch {
			case model.Indexer != nil:
				within = 0.06
			case l.machine == "rtx-pro-6000-server":
				o.Experts, within = 2, 0.03
			}
		}
		e, err := serving.NewServed(context.Background(), serving.Engine{Options: o, Preempt: pipeline.ByRecompute, BlockTokens: block, Budget: budget, MaxRunning: running}, serving.Admission{})
		fatal.If(t, err)
		s, err := e.Summarise(context.Background(), func(float64) (serving.Source, func(), error) {
			return serving.FromSlice([]serving.Request{{Input: 1, Output: 1}}), func() {}, nil
		}, 1)
		fatal.If(t, err)
		difference := float64(s.Blocks)/float64(l.blocks-1) - 1
		if math.Abs(difference) > within {
			t.Errorf("%s on %d %s: %d blocks, vLLM has %d: %.2f %%", l.model, l.gpus, l.machine, s.Blocks, l.blocks-1, 100*difference)
		}
		line := fmt.Sprintf("| %s | %d × %s | %d | %d | %+.2f %% |", l.model, l.gpus, l.machine, l.blocks-1, s.Blocks, 100*difference)
		if line = strings.ReplaceAll(line, "| -", "| −"); !strings.Contains(string(page), line) {
			t.Errorf("the page lacks the line %s", line)
		}
	}
}

// Eq. 1 keeps the contract of schedulers, with and without an uncached share.
func TestOptimised(t *testing.T) {
	for _, slo := range []int64{0, 150, 1000} {
		for _, partial := range []bool{false, true} {
			servingtest.Run(t, func() serving.Scheduler {
				return &serving.Optimised{Time: servingtest.Toy{}.Iteration, SLO: slo, Partial: partial}
			})
		}
	}
}
