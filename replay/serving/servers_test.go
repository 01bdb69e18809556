package serving_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/tabletest"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// serverRuns are runs of vLLM servers with the requests of data/sharegpt-300.csv. times has the recorded
// TPOT and TTFT, in ms, or zeros. On A40 they are medians, of validation/VALIDATION_A40_REPORT.md of
// https://github.com/ai-computing/LLMServingSim. On H100 they are means, of evaluation/figure_8 of
// https://github.com/casys-kaist/LLMServingSim, with as many tokens per second. blind has the errors
// before any of the runs was read for the model.
var serverRuns = []struct {
	machine, model string
	gpus, servers  int
	engine, series string
	times          [2]float64
	blind          [4]string
}{
	{"a40", "llama-3.1-8b", 1, 1, operator.DefaultEngine, "", [2]float64{77.9, 348.2}, [4]string{"–", "–", "−17.8 %", "−51.5 %"}},
	{"a40", "llama-3.1-8b", 2, 1, operator.DefaultEngine, "", [2]float64{31.8, 111.0}, [4]string{"–", "–", "−15.2 %", "−38.4 %"}},
	{"a40", "llama-3.1-8b", 4, 1, operator.DefaultEngine, "", [2]float64{41.5, 153.9}, [4]string{"–", "–", "−48.5 %", "−65.1 %"}},
	{"rtx-a6000", "llama-3.1-8b", 1, 1, "vllm-0.8", "vllm-rtx-a6000", [2]float64{}, [4]string{"15.3 %", "−2.8 %", "–", "–"}},
	{"rtx-a6000", "llama-3.1-8b", 1, 2, "vllm-0.8", "vllm-rtx-a6000-two", [2]float64{}, [4]string{"6.1 %", "−2.2 %", "–", "–"}},
	{"h100", "llama-3.1-70b", 4, 1, "vllm-0.8", "vllm-h100", [2]float64{26.72, 61.5}, [4]string{"5.3 %", "−5.9 %", "−7.1 %", "−11.7 %"}},
	{"h100", "llama-3.1-70b", 4, 2, "vllm-0.8", "vllm-h100-two", [2]float64{22.665, 50.33}, [4]string{"5.5 %", "−5.2 %", "−9.7 %", "−12.2 %"}},
}

// The model meets servers on other GPUs. A router gives them the requests in turn. Nothing is fitted to
// the runs. The page has the table.
func TestServerRuns(t *testing.T) {
	lib, err := hardware.Load("")
	fatal.If(t, err)
	all := requestsOf(t, "data/sharegpt-300.csv")
	var b strings.Builder
	b.WriteString("| GPU | model | servers | | tokens/s over time | last token | TPOT | TTFT |\n|---|---|---|---|" + strings.Repeat("---:|", 4) + "\n")
	for _, run := range serverRuns {
		machine, err := lib.Machine(run.machine)
		fatal.If(t, err)
		if run.machine == "a40" && run.gpus == 2 { // the source states an NVLink bridge
			machine, err = machine.WithBridges()
			fatal.If(t, err)
		}
		model, err := lib.Model(run.model)
		fatal.If(t, err)
		engine, err := operator.ParseEngine(run.engine)
		fatal.If(t, err)
		e, err := serving.NewServed(context.Background(), serving.Engine{
			Options: pipeline.Options{Machine: machine, Model: model, Engine: engine, Kernels: kernel.Fitted(lib), Reserve: 0.1,
				TensorParallel: run.gpus, Network: pipeline.Networks(lib)},
			Preempt: pipeline.ByRecompute, BlockTokens: 16, Budget: 2048, MaxRunning: 256}, serving.Admission{})
		fatal.If(t, err)
		e.Ahead = !engine.Waits()
		now := [4]string{"–", "–", "–", "–"}
		var steps []serving.StepRow
		var modelled [2]float64
		for k := range run.servers {
			var own []serving.Request
			for i := k; i < len(all); i += run.servers {
				own = append(own, all[i])
			}
			s, err := e.Summarise(context.Background(), func(float64) (serving.Source, func(), error) { return serving.FromSlice(own), func() {}, nil }, 1,
				serving.Rows{Step: func(r *serving.StepRow) error { steps = append(steps, *r); return nil }})
			fatal.If(t, err)
			for i, spread := range []serving.Spread{s.TPOT, s.TTFT} {
				ns := spread.Mean
				if run.machine == "a40" {
					ns = spread.P50
				}
				modelled[i] += float64(ns) / 1e6 / float64(run.servers)
			}
		}
		if run.series != "" {
			var compared serving.Comparison
			compared.Series = seriesOf(t, "data/"+run.series+"-series.csv")
			slices.SortStableFunc(steps, func(a, b serving.StepRow) int { return cmp.Compare(a.End, b.End) })
			for i := range steps {
				fatal.If(t, compared.Rows().Step(&steps[i]))
			}
			for i, d := range compared.Differences() {
				now[i] = percent(d)
			}
		}
		for i, recorded := range run.times {
			if recorded > 0 {
				now[2+i] = percent(serving.Difference{Error: modelled[i]/recorded - 1})
			}
		}
		gpus := run.machine
		if run.gpus > 1 {
			gpus = fmt.Sprintf("%d × %s", run.gpus, gpus)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | blind | %s |\n", gpus, run.model, run.servers, strings.Join(run.blind[:], " | "))
		fmt.Fprintf(&b, "| | | | now | %s |\n", strings.Join(now[:], " | "))
	}
	tabletest.In(t, "RUNS.md", b.String(), *update, updates)
}

// requestsOf returns the requests of a file.
func requestsOf(t *testing.T, name string) (all []serving.Request) {
	t.Helper()
	r, err := requests.Open(name)
	fatal.If(t, err)
	defer r.Close()
	var q requests.Request
	for {
		if err := r.Read(&q); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, serving.Request{Arrival: int64(q.Arrival), Input: q.InputTokens, Output: q.OutputTokens})
	}
}
