package serving_test

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/serving"
	"github.com/kvreplay/kvreplay/replay/serving/servingtest"
)

// recording reads the bundled run.
func recording(t *testing.T) (all []serving.Request, recorded []serving.Recorded, samples []serving.Sample) {
	t.Helper()
	f, err := os.Open("data/vllm-rtx4090.csv")
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
		all = append(all, serving.Request{Arrival: ns(v[0]), Input: int(v[1]), Output: int(v[2])})
		recorded = append(recorded, serving.Recorded{Arrival: ns(v[0]), First: ns(v[3]), Last: ns(v[4]), Output: int(v[2])})
	}
	series, err := os.Open("data/vllm-rtx4090-series.csv")
	fatal.If(t, err)
	defer series.Close()
	if samples, err = serving.ReadSamples(series, "series"); err != nil {
		t.Fatal(err)
	}
	return all, recorded, samples
}

// The model meets a recorded run within the aims. Nothing is fitted to the run. Its number of blocks
// is a setting of the engine. Derived from the machine alone, the number has the stated error.
func TestRecordedRun(t *testing.T) {
	all, recorded, samples := recording(t)
	lib, err := hardware.Load("")
	fatal.If(t, err)
	machine, err := lib.Machine("rtx4090")
	fatal.If(t, err)
	model, err := lib.Model("llama-3.1-8b")
	fatal.If(t, err)
	engine, err := pipeline.ParseEngine(pipeline.DefaultEngine)
	fatal.If(t, err)
	measured := map[string]float64{"TPOT mean": 0.05, "TPOT p50": 0.05, "TPOT p90": 0.15, "TPOT p99": 0.15, "TTFT mean": 0.1, "TTFT p50": 0.1, "TTFT p90": 0.1,
		"TTFT p99": 0.1, "KV blocks": 0, "running requests": 0.1, "waiting requests": 0.1, "KV blocks in use": 0.1}
	for name, c := range map[string]struct {
		kernels kernel.Source
		blocks  int
		aims    map[string]float64
	}{
		"measured kernels":                  {kernel.Fitted(lib), 2587, measured},
		"data sheets":                       {kernel.None, 2587, map[string]float64{"TPOT mean": 0.15, "TPOT p50": 0.15, "TPOT p90": 0.15, "TPOT p99": 0.15}},
		"measured kernels, blocks that fit": {kernel.Fitted(lib), 0, map[string]float64{"TPOT mean": 0.05, "TTFT mean": 0.1, "KV blocks": 0.1}},
	} {
		e, err := serving.NewServed(context.Background(), serving.Engine{
			Options: pipeline.Options{Machine: machine, Model: model, Kernels: c.kernels, Engine: engine, Reserve: 0.1},
			Preempt: pipeline.ByRecompute, BlockTokens: 16, Budget: 2048, MaxRunning: 256, Blocks: c.blocks}, serving.Limits{})
		fatal.If(t, err)
		compared := serving.Comparison{Requests: recorded, Samples: samples}
		from := func(float64) (serving.Source, func(), error) { return serving.FromSlice(all), func() {}, nil }
		s, err := e.Summarise(context.Background(), from, 1, serving.SLO{}, compared.Rows())
		fatal.If(t, err)
		found := 0
		for _, d := range compared.Differences(s.Blocks) {
			aim, ok := c.aims[d.Figure]
			if !ok {
				continue
			}
			found++
			if math.Abs(d.Error) > aim {
				t.Errorf("%s: %s is %g, recorded %g: %.1f %%, the aim is %.0f %%", name, d.Figure, d.Modelled, d.Recorded, 100*d.Error, 100*aim)
			}
		}
		if found != len(c.aims) {
			t.Errorf("%s: %d of %d figures", name, found, len(c.aims))
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
