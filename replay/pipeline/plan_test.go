package pipeline

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// ESS's Table 2 prints these ratios with its batches. 54.3 requests of 32K fit whole, and a quarter
// as many of 128K. The indexer's share is 132 of 788 B.
func TestCacheRatio(t *testing.T) {
	for _, c := range []struct{ full, batch, printed float64 }{
		{54.3, 52, 1}, {54.3, 64, 0.82}, {54.3, 96, 0.48}, {54.3, 128, 0.31}, {54.3, 160, 0.21}, {54.3 / 4, 13, 1}, {54.3 / 4, 40, 0.2}, {54.3 / 4, 54, 0.1},
	} {
		if r := CacheRatio(c.full, c.batch, 132./788); math.Abs(r-c.printed) > 0.01 {
			t.Errorf("batch %g: ratio %.3f, the paper prints %g", c.batch, r, c.printed)
		}
	}
}

func planOptions(t *testing.T, p *Profile, schedules ...string) PlanOptions {
	o := PlanOptions{Options: options(t, p, "da"), LayerMap: "nearest", MaxBatch: 64}
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
	plan, err := Plan(t.Context(), []*Profile{p}, o)
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
	pairs, err := Plan(t.Context(), []*Profile{p}, twice)
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
		if c.Schedule == "gpu" && (c.Binding != BindsGPU || *c.Ratio != 1 || c.Cell != Cell{}) {
			t.Errorf("all on the GPU is bound by %s at ratio %g with the cell %v", c.Binding, *c.Ratio, c.Cell)
		}
		if *c.Fill < *c.Ratio-1e-9 {
			t.Errorf("%s keeps %g of the context, but %g would fill memory", c.Schedule, *c.Ratio, *c.Fill)
		}
	}
	if again, err := Plan(t.Context(), []*Profile{p}, o); err != nil || !reflect.DeepEqual(again, plan) {
		t.Errorf("the same input gives another plan: %v", err)
	}
}

// timeless are operators that take no time.
type timeless struct{ Computer }

func (timeless) Layer(int, *Load) (Operators, error) { return Operators{}, nil }
func (timeless) Output(float64) (float64, error)     { return 0, nil }

// Operators can take no time. No machine's file makes them so.
func TestStepOfNoTime(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "gpu")
	o.Operators = func(usual Computer) Computer { return timeless{usual} }
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "the operators give a step of 0 s") {
		t.Errorf("%v, expected an error about the time", err)
	}
}

func TestPlanRefuses(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "da", "tbo")
	o.SLO = 1e-9
	if _, err := Plan(t.Context(), []*Profile{p}, o); err == nil || !strings.Contains(err.Error(), "the SLO is 1 ns") {
		t.Errorf("%v, expected the SLO", err)
	}
	o = planOptions(t, p, "tbo")
	o.MaxBatch = 1
	if _, err := Plan(t.Context(), []*Profile{p}, o); err == nil || !strings.Contains(err.Error(), "into 2 parts") {
		t.Errorf("%v, expected that two parts need two requests", err)
	}
	for want, change := range map[string]func(*PlanOptions){
		"SLO NaN":                   func(o *PlanOptions) { o.SLO = math.NaN() },
		"largest batch 1048577":     func(o *PlanOptions) { o.MaxBatch = mostRequests + 1 },
		"no schedule or no profile": func(o *PlanOptions) { o.Schedules = nil },
	} {
		o = planOptions(t, p, "da")
		change(&o)
		if _, err := Plan(t.Context(), []*Profile{p}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	o = planOptions(t, p, "da")
	o.LayerMap = ""
	if _, err := Plan(t.Context(), []*Profile{p}, o); err == nil || !strings.Contains(err.Error(), "--layer-map") {
		t.Errorf("%v, expected that a layer map is missing", err)
	}
	o = planOptions(t, p, "da")
	plan, err := Plan(t.Context(), []*Profile{p}, o)
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
		plan, err := Plan(t.Context(), []*Profile{p}, PlanOptions{Options: o, Schedules: []schedule.Schedule{o.Schedule}, LayerMap: "nearest", MaxBatch: most})
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
	Computer
	from  []float64 // requests
	takes []float64 // s
}

func (stairs) Layer(int, *Load) (Operators, error) { return Operators{}, nil }

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
		o.Operators = func(usual Computer) Computer {
			return stairs{usual, []float64{1, 9, 13}, []float64{1e-3, 2e-3, 3e-3}}
		}
		plan, err := Plan(t.Context(), []*Profile{p}, o)
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
	plan, err := Plan(t.Context(), []*Profile{p}, o)
	fatal.If(t, err)
	const why = "quantises FP16 keys and values, but deepseek-v3.2 caches other entries: leave kv=int4 out"
	if d := plan.Dropped; len(plan.Candidates) != 1 || len(d) != 1 || d[0].Binding != BindsModel || !strings.Contains(d[0].Reason, why) || d[0].Cell != (Cell{}) {
		t.Errorf("%d candidates, dropped %+v", len(plan.Candidates), d)
	}
	o.Schedules = o.Schedules[:1]
	if _, err := Plan(t.Context(), []*Profile{p}, o); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v, expected that nothing can be used", err)
	}
}
