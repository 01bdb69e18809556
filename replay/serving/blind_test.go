package serving_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/tabletest"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/serving"
)

var update = flag.Bool("update", false, "rewrite the tables of recorded runs in RUNS.md")

const updates = "go test ./replay/serving -run Run -update"

// blindFigures are the columns of the table of runs of vLLM 0.28.
var blindFigures = []string{"TPOT mean", "TPOT p50", "TPOT p99", "TTFT mean", "TTFT p50", "running requests"}

// blindRuns are runs of vLLM 0.28 on the Server Edition of RTX PRO 6000. recorded has the figures of
// docs/docs/validation.md of https://github.com/casys-kaist/LLMServingSim, commit 0d3de681, in ms and
// s. It is nil if the requests state their times. The requests of the first run are those of the run
// on an RTX 4090, and those of the others are those of the second. The figures of the last are those of
// bench/examples/RTXPRO6000/DeepSeek-V3.2-Exp-16L64E/validation/summary.txt. Its config.json is that of
// configs/model/deepseek-ai. blind has the errors before any of
// the runs was read for the model: on rtx-pro-6000, whose memory is faster, and with all-reduces of
// RTX 4090. Without --data-parallel, two halves of the third run were served one after the other.
var blindRuns = []struct {
	model              string
	gpus               int
	parallel           string
	requests           string
	block              int
	recorded           []float64
	fitted, byRoofline [6]string
	aims               [6]float64 // of the errors with fitted kernels, 0 for none
}{
	{"llama-3.1-8b", 1, "", "data/vllm-rtx4090", 16, []float64{31.5, 32.7, 36.4, 6.5467, 8.4307},
		[6]string{"−6.7 %", "−7.0 %", "−5.4 %", "−13.3 %", "−13.4 %", "–"}, [6]string{"−20.3 %", "−20.3 %", "−19.8 %", "−49.1 %", "−58.3 %", "–"},
		[6]float64{0.15, 0.15, 0.15, 0.1, 0.1}},
	{"qwen3-32b", 2, "tensor", "data/vllm-rtx-pro-6000-qwen3-32b", 16, nil,
		[6]string{"−1.3 %", "−0.9 %", "+1.7 %", "+6.6 %", "+5.7 %", "2.3 %"}, [6]string{"−14.5 %", "−14.5 %", "−11.7 %", "−13.6 %", "−13.3 %", "14.5 %"},
		[6]float64{0.15, 0.15, 0.15, 0.1, 0.1, 0.1}},
	{"qwen3-30b-a3b", 2, "data", "data/vllm-rtx-pro-6000-qwen3-32b", 16, []float64{46.8, 48.4, 52.6, 1.0462, 0.1624},
		[6]string{"−1.3 %", "−0.6 %", "−1.0 %", "+9.0 %", "+17.5 %", "–"}, [6]string{"−11.8 %", "−11.6 %", "−11.3 %", "−42.1 %", "−2.2 %", "–"},
		[6]float64{0.15, 0.15, 0.15}},
	{"deepseek-v3.2-16l64e", 1, "", "data/vllm-rtx-pro-6000-qwen3-32b", 64, []float64{55.7, 58.1, 77.3, 29.5512, 32.0871},
		[6]string{"−34.0 %", "−35.6 %", "−48.9 %", "−68.0 %", "−60.7 %", "–"}, [6]string{"−40.3 %", "−42.3 %", "−55.4 %", "−74.8 %", "−67.0 %", "–"},
		[6]float64{}},
}

// The model meets runs of another GPU, other models and a later version. Nothing is fitted to them.
// Without measured kernels, errors are beyond the aims, which the page states. The page has the table.
func TestBlindRuns(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	machine, err := lib.Machine("rtx-pro-6000-server")
	fatal.If(t, err)
	engine, err := operator.ParseEngine(operator.DefaultEngine)
	fatal.If(t, err)
	var b strings.Builder
	b.WriteString("| model | GPUs | kernels | | " + strings.Join(blindFigures, " | ") + " |\n|---|---|---|---|" + strings.Repeat("---:|", len(blindFigures)) + "\n")
	for _, run := range blindRuns {
		r := readRecording(t, run.requests)
		name := run.model
		if _, err := os.Stat("testdata/" + name); err == nil { // no bundled model
			name = "testdata/" + name + "/config.json"
		}
		model, err := lib.ModelOrConfig(name)
		fatal.If(t, err)
		o := pipeline.Options{Machine: machine, Model: model, Engine: engine, Reserve: 0.08, TensorParallel: 1, Experts: 1, Network: pipeline.Networks(lib)}
		replicas := 1
		switch run.parallel {
		case "tensor":
			o.TensorParallel = run.gpus
		case "data":
			o.Experts, replicas = run.gpus, run.gpus
		}
		for _, by := range []struct {
			name    string
			kernels kernel.Source
			blind   [6]string
		}{{"fitted", kernel.Fitted(lib), run.fitted}, {"roofline", kernel.None, run.byRoofline}} {
			o.Kernels = by.kernels
			found := map[string]serving.Difference{}
			for _, d := range r.differences(t, serving.Engine{Options: o, Preempt: pipeline.ByRecompute,
				BlockTokens: run.block, Budget: 2048, MaxRunning: 128, Replicas: replicas}) {
				found[d.Figure] = d
			}
			now := [6]string{}
			for i, name := range blindFigures {
				d := found[name]
				switch {
				case i < len(run.recorded):
					d.Error = d.Modelled/run.recorded[i] - 1
				case run.recorded != nil:
					now[i] = "–"
					continue
				}
				now[i] = percent(d)
				if aim := run.aims[i]; by.name == "fitted" && aim > 0 && (d.Error > aim || d.Error < -aim) {
					t.Errorf("%s: the error of %s is %.3f, the aim is %g", run.model, name, d.Error, aim)
				}
			}
			gpus := fmt.Sprint(run.gpus)
			if run.parallel != "" {
				gpus += ", `--" + run.parallel + "-parallel`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | blind | %s |\n", run.model, gpus, by.name, strings.Join(by.blind[:], " | "))
			fmt.Fprintf(&b, "| | | | now | %s |\n", strings.Join(now[:], " | "))
		}
	}
	tabletest.In(t, "RUNS.md", b.String(), *update, updates)
}
