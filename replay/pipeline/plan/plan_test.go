package plan

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/pipelinetest"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

func planOptions(t *testing.T, p *pipeline.Profile, schedules ...string) Options {
	o := Options{Options: options(t, p, "da"), LayerMap: "nearest", MaxBatch: 64}
	o.Steps = 3
	for _, s := range schedules {
		o.Schedules = append(o.Schedules, scheduleOf(t, s))
	}
	return o
}

// The batch of a plan is the best of all batches, priced one by one.
func TestPlanIsTheBest(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "da", "gpu")
	machine, gpu := *o.Machine, *o.Machine.GPU
	gpu.Memory.Value = 2e9
	machine.GPU, o.Machine = &gpu, &machine
	o.SLO = 2e-3
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
	fatal.If(t, err)
	best, name := 0., ""
	for _, s := range o.Schedules {
		for batch := 1; batch <= o.MaxBatch; batch++ {
			q := o.Options
			q.Schedule, q.Batch = s, batch
			if r := priced(t, p, q); r.Fits() && r.TPOT <= o.SLO && r.Tokens > best {
				best, name = r.Tokens, s.Name()
			}
		}
	}
	if plan.Candidates[0].Tokens != best || plan.Candidates[0].Schedule != name {
		t.Errorf("the plan is %s with %g tokens/s, of all batches the best is %s with %g", plan.Candidates[0].Schedule, plan.Candidates[0].Tokens, name, best)
	}
	if len(plan.Candidates) != 2 || plan.Candidates[1].Tokens > plan.Candidates[0].Tokens {
		t.Errorf("a plan of %d candidates, the runner-up has %g tokens/s", len(plan.Candidates), plan.Candidates[1].Tokens)
	}
	// If a step yields two tokens, a token takes half a step, and larger batches are fast enough.
	twice := o
	twice.Positions, twice.Accept, twice.SLO = 2, 2, o.SLO/2
	pairs, err := Search(t.Context(), []*pipeline.Profile{p}, twice)
	fatal.If(t, err)
	best = 0
	for batch := 1; batch <= o.MaxBatch; batch++ {
		q := twice.Options
		q.Schedule, q.Batch = o.Schedules[0], batch
		if r := priced(t, p, q); r.Fits() && r.TPOT <= twice.SLO {
			best = max(best, r.Tokens)
		}
	}
	for _, c := range pairs.Candidates {
		if c.Schedule == o.Schedules[0].Name() && c.Tokens != best {
			t.Errorf("with two tokens a step the plan has %g tokens/s at batch %d, of all batches the best %g", c.Tokens, c.Batch, best)
		}
	}
	for _, c := range plan.Candidates {
		if c.Schedule == "gpu" && (c.Binding != BindsGPU || *c.Ratio != 1 || c.Cell != pipeline.Cell{}) {
			t.Errorf("all on the GPU is bound by %s at ratio %g with the cell %v", c.Binding, *c.Ratio, c.Cell)
		}
		if *c.Fill < *c.Ratio-1e-9 {
			t.Errorf("%s keeps %g of the context, but %g would fill memory", c.Schedule, *c.Ratio, *c.Fill)
		}
	}
	if again, err := Search(t.Context(), []*pipeline.Profile{p}, o); err != nil || !reflect.DeepEqual(again, plan) {
		t.Errorf("the same input gives another plan: %v", err)
	}
}

func TestPlanRefuses(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "da", "tbo")
	o.SLO = 1e-9
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, o); err == nil || !strings.Contains(err.Error(), "the SLO is 1 ns") {
		t.Errorf("%v, expected the SLO", err)
	}
	o = planOptions(t, p, "tbo")
	o.MaxBatch = 1
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, o); err == nil || !strings.Contains(err.Error(), "into 2 parts") {
		t.Errorf("%v, expected that two parts need two requests", err)
	}
	for want, change := range map[string]func(*Options){
		"SLO NaN":                   func(o *Options) { o.SLO = math.NaN() },
		"largest batch 1048577":     func(o *Options) { o.MaxBatch = pipeline.MostRequests + 1 },
		"no schedule or no profile": func(o *Options) { o.Schedules = nil },
	} {
		o = planOptions(t, p, "da")
		change(&o)
		if _, err := Search(t.Context(), []*pipeline.Profile{p}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	o = planOptions(t, p, "da")
	o.LayerMap = ""
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, o); err == nil || !strings.Contains(err.Error(), "--layer-map") {
		t.Errorf("%v, expected that a layer map is missing", err)
	}
	o = planOptions(t, p, "da")
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
	if err != nil || plan.Candidates[0].Binding != BindsBatch || plan.Candidates[0].Batch != 64 {
		t.Errorf("%+v: %v, expected the largest batch", plan, err)
	}
}

// Tokens/s may rise and then fall, as eLLM's do when requests no longer fit whole. The plan then
// still finds the best of all batches, priced one by one, for any start of the search.
func TestPlanFindsThePeak(t *testing.T) {
	p, o := decodes(t, 900, 1, "ellm")
	best, tokens := 0, 0.
	for batch := 1; batch <= 80; batch++ {
		o.Batch = batch
		if r := priced(t, p, o); r.Fits() && r.Tokens > tokens {
			best, tokens = batch, r.Tokens
		}
	}
	if best <= 33 || best >= 79 { // the peak is between powers of 2 and not at an edge
		t.Fatalf("the best of all batches is %d", best)
	}
	for _, most := range []int{best - 1, best, best + 1, best + 2, 80, 512} {
		plan, err := Search(t.Context(), []*pipeline.Profile{p}, Options{Options: o, Schedules: []schedule.Schedule{o.Schedule}, LayerMap: "nearest", MaxBatch: most})
		fatal.If(t, err)
		want, binding := min(best, most), BindsThroughput
		if most <= best {
			binding = BindsBatch
		}
		if c := plan.Candidates[0]; c.Batch != want || c.Binding != binding {
			t.Errorf("at most %d: batch %d with %g tokens/s, bound by %s; expected %d, bound by %s", most, c.Batch, c.Tokens, c.Binding, want, binding)
		}
	}
}

// stairs are operators whose step takes the time of the highest stair that the batch reaches.
type stairs struct {
	operator.Pricer
	from  []float64 // requests
	takes []float64 // s
}

func (stairs) Layer(int, *operator.Load) (operator.Times, error) {
	return operator.Times{}, nil
}

func (s stairs) Output(queries float64) (t float64, err error) {
	for i, from := range s.from {
		if queries >= from {
			t = s.takes[i]
		}
	}
	return t, nil
}

// By hand, with an SLO of 2.5 ms: batch 8 yields 8 requests in 1 ms, and 12 of 2 ms meet the SLO but
// yield fewer. Batches from 13 take 3 ms. 24 of them yield no more than batch 8, and 25 do.
func TestPlanNamesTheSLOOfAFasterBatch(t *testing.T) {
	p := read(t, realProfile(t))
	for most, want := range map[int]Binding{8: BindsBatch, 16: BindsThroughput, 24: BindsThroughput, 64: BindsSLO} {
		o := planOptions(t, p, "gpu")
		o.MaxBatch, o.SLO = most, 2.5e-3
		o.Override = func(usual operator.Pricer) operator.Pricer {
			return stairs{usual, []float64{1, 9, 13}, []float64{1e-3, 2e-3, 3e-3}}
		}
		plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
		fatal.If(t, err)
		if c := plan.Candidates[0]; c.Batch != 8 || c.Binding != want {
			t.Errorf("at most %d: batch %d, bound by %s; expected 8, bound by %s", most, c.Batch, c.Binding, want)
		}
	}
}

// A schedule that the model cannot use is dropped. Alone it is an error.
func TestPlanDropsASchedule(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "kvpr:kv=int4", "gpu")
	o.Machine, o.Model = parts(t, "h200", "deepseek-v3.2")
	o.LayerMap, o.TopK, o.MaxBatch, o.Steps, o.Context = "stretch", 2048, 1, 1, 4096
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
	fatal.If(t, err)
	const why = "quantises FP16 keys and values, but deepseek-v3.2 caches other entries: leave kv=int4 out"
	if d := plan.Dropped; len(plan.Candidates) != 1 || len(d) != 1 || d[0].Binding != BindsModel || !strings.Contains(d[0].Reason, why) || d[0].Cell != (pipeline.Cell{}) {
		t.Errorf("%d candidates, dropped %+v", len(plan.Candidates), d)
	}
	o.Schedules = o.Schedules[:1]
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, o); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v, expected that nothing can be used", err)
	}
}

// Only lossy policies decode with kept.
func TestPlanOfKept(t *testing.T) {
	p := read(t, realProfile(t))
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, planOptions(t, p, "kept")); err == nil || !strings.Contains(err.Error(), "keeps all entries: add another schedule") {
		t.Error(err)
	}
}

// A plan finds batches that fit for both schedules. All of the context is cached.
func TestPlanOfDense(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "gpu", "dense")
	machine, gpu := *o.Machine, *o.Machine.GPU
	gpu.Memory.Value = 2e9
	machine.GPU, o.Machine, o.Context = &gpu, &machine, 8192
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
	if err != nil || len(plan.Candidates) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, c := range plan.Candidates {
		if *c.Ratio != 1 || *c.Fill < 1 || math.IsInf(*c.Fill, 0) || c.Binding != BindsGPU || c.Cell != (pipeline.Cell{}) {
			t.Errorf("%s keeps %g, %g fills, bound by %s, cell %v", c.Schedule, *c.Ratio, *c.Fill, c.Binding, c.Cell)
		}
	}
	if of := func(name string) int { return batchOf(plan.Candidates, name) }; of("dense") <= of("gpu") {
		t.Errorf("dense has room for %d requests, sparse with its index for %d", of("dense"), of("gpu"))
	}
}

func batchOf(plan []Candidate, schedule string) int {
	for _, c := range plan {
		if c.Schedule == schedule {
			return c.Batch
		}
	}
	return 0
}

// A plan gives each schedule the cells that it decodes with. kept is ranked apart.
func TestPlanOfLossyPolicies(t *testing.T) {
	path := pipelinetest.Replay(t, []string{"streamingllm", "lru"})
	cells, err := pipeline.Cells(t.Context(), path)
	fatal.If(t, err)
	profiles, err := pipeline.ReadProfiles(t.Context(), path, cells)
	fatal.If(t, err)
	o := Options{Options: options(t, profiles[0], "da"), LayerMap: "nearest", MaxBatch: 4}
	for _, name := range []string{"da", "kept", "gpu"} {
		o.Schedules = append(o.Schedules, scheduleOf(t, name))
	}
	plan, err := Search(t.Context(), profiles, o)
	fatal.If(t, err)
	got := map[string]string{}
	for _, c := range plan.Candidates {
		got[c.Schedule] = c.Policy + " " + c.Rank
	}
	if want := map[string]string{"da": "lru 2", "gpu": " 1", "kept": "streamingllm:sink=4 1"}; !maps.Equal(got, want) {
		t.Errorf("plan has %v, expected %v", got, want)
	}
	o.Schedules = o.Schedules[:1]
	lossy := slices.IndexFunc(profiles, (*pipeline.Profile).Lossy)
	if _, err := Search(t.Context(), profiles[lossy:lossy+1], o); err == nil || !strings.Contains(err.Error(), "add kept") {
		t.Errorf("only a lossy policy: %v", err)
	}
}

// A plan ranks lossy entries apart from exact ones. Its share of the context in the cache does not
// depend on the form below the cache.
func TestPlanOfEntries(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "da", "gpu")
	o.MaxBatch = 1
	plan := func(text string) map[string]Candidate {
		var err error
		o.Entry, err = operator.ParseEntry(text, o.Model)
		fatal.If(t, err)
		planned, err := Search(t.Context(), []*pipeline.Profile{p}, o)
		fatal.If(t, err)
		found := map[string]Candidate{}
		for _, c := range planned.Candidates {
			found[c.Schedule] = c
		}
		return found
	}
	own, lossy := plan("auto"), plan("v")
	if own["da"].Serves != schedule.SparseTopK || lossy["da"].Serves != schedule.LossyTopK || lossy["gpu"].Serves != schedule.SparseTopK ||
		lossy["da"].Rank != "1" || lossy["gpu"].Rank != "1" {
		t.Errorf("own entries: %+v, lossy ones: %+v", own, lossy)
	}
	for _, name := range []string{"da", "gpu"} {
		near(t, name+", share of the context", *lossy[name].Ratio, *own[name].Ratio)
	}
}

// A plan equals one whose prices never stop early. With an SLO, its candidates and binding
// constraints are those found without an SLO among the batches that meet it.
func TestPlanStopsEarlyForNothing(t *testing.T) {
	p := randomProfile(rand.New(rand.NewPCG(25, 26)), 3, 4)
	o := planOptions(t, p, "da", "sfc", "tbo", "kvpr")
	for _, slo := range []float64{0.6e-3, 1e-3, 3e-3} {
		o.SLO = slo
		plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
		fatal.If(t, err)
		got := plan.Candidates
		for i := range got {
			q := o.Options
			q.Batch = got[i].Batch
			if q.Scaling, err = pipeline.NewScaling(p, q.Model, o.LayerMap, o.TopK); err != nil {
				t.Fatal(err)
			}
			for _, s := range o.Schedules {
				if s.Name()[:2] == got[i].Schedule[:2] {
					q.Schedule = s
				}
			}
			alone := priced(t, p, q)
			alone.Cell = got[i].Cell
			if !reflect.DeepEqual(got[i].Result, alone) {
				t.Errorf("SLO %g: %s is not what it is alone", slo, got[i].Schedule)
			}
			if q.Batch++; got[i].Binding == BindsSLO && priced(t, p, q).TPOT <= slo {
				t.Errorf("SLO %g: %s is bound at batch %d, the next meets it", slo, got[i].Schedule, got[i].Batch)
			}
		}
	}
}

// A plan searches batches of at least one request for each stage. The GPU of a stage has all KV of its
// layers.
func TestPlanOfStages(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3.1-8b")
	p, scaling, err := pipeline.Decoding(1024, 4, false, m)
	fatal.If(t, err)
	fit := collective.Fit{Constants: collective.Constants{Call: 10e-6, Hop: 1e-6, Share: 0.5}, Basis: []string{"a test"}}
	n := &collective.Network{Link: 100e9, NCCL: fit, Kernels: fit}
	o := pipeline.Options{Machine: machine, Model: m, Scaling: scaling, Schedule: scheduleOf(t, "dense"), Batch: 16, Threads: 1, PipelineParallel: 3,
		Network: func(*hardware.Machine, int) (*collective.Network, error) { return n, nil }}
	plan := Options{Options: o, MaxBatch: 16, Schedules: []schedule.Schedule{scheduleOf(t, "dense")}, LayerMap: "nearest"}
	found, err := Search(t.Context(), []*pipeline.Profile{p}, plan)
	if err != nil || found.Candidates[0].PipelineParallel != 3 || found.Candidates[0].Batch < 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	if c := found.Candidates[0]; *c.Ratio != 1 || *c.Fill != 1 {
		t.Errorf("a stage keeps %g of the context, and %g would fill memory, expected all", *c.Ratio, *c.Fill)
	}
	plan.MaxBatch = 2
	if _, err := Search(t.Context(), []*pipeline.Profile{p}, plan); err == nil || !strings.Contains(err.Error(), "into 3 parts") {
		t.Errorf("%v, expected a batch that is too small", err)
	}
}

// The benchmark plans for a model of 61 layers from two cells, with the schedules that `kvreplay
// plan` chooses from.
func BenchmarkPlan(b *testing.B) {
	path := realProfile(b)
	p := read(b, path)
	o := Options{Options: options(b, p, "da"), LayerMap: "stretch", TopK: 2048, MaxBatch: 512}
	o.Machine, o.Model = parts(b, "h200", "deepseek-v3.2")
	o.Context, o.SLO = 32768, 0.1
	var err error
	if o.Selection, err = operator.ParseSelection("auto", o.Model); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"layerwise", "tbo", "sfc", "kvpr", "flexgen", "gpu"} {
		o.Schedules = append(o.Schedules, scheduleOf(b, name))
	}
	for b.Loop() {
		if _, err := Search(b.Context(), []*pipeline.Profile{p}, o); err != nil {
			b.Fatal(err)
		}
	}
}

// A plan of eLLM states the share of the tokens that its chosen schedule caches.
func TestPlanOfELLM(t *testing.T) {
	p, o := decodes(t, 1000, 120, "ellm")
	found, err := Search(t.Context(), []*pipeline.Profile{p}, Options{Options: o, Schedules: []schedule.Schedule{scheduleOf(t, "ellm")}, LayerMap: "nearest", MaxBatch: 120, SLO: 10})
	fatal.If(t, err)
	chosen := scheduleOf(t, found.Candidates[0].Schedule).(*schedule.ELLM)
	near(t, "cached share of the plan", *found.Candidates[0].Ratio, 1-chosen.Uncached)
}

// Plans of attention on the CPU have finite figures.
func TestPlanOfHost(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "host")
	plan := Options{Options: o, MaxBatch: 4, LayerMap: "nearest"}
	for _, name := range []string{"host", "host:attend=demand", "host:attend=missed,halves=yes"} {
		plan.Schedules = append(plan.Schedules, scheduleOf(t, name))
	}
	found, err := Search(t.Context(), []*pipeline.Profile{p}, plan)
	fatal.If(t, err)
	if _, err := json.Marshal(found.Candidates); err != nil || len(found.Candidates) != 3 {
		t.Errorf("%d candidates, %v", len(found.Candidates), err)
	}
}

// An interrupt ends a search.
func TestSearchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := read(t, realProfile(t))
	if _, err := Search(ctx, []*pipeline.Profile{p}, planOptions(t, p, "da")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
