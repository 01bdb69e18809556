package plan

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Every schedule of the table states the model that it serves. Quantised KV and exact KV are
// different models. Only a prediction is an oracle.
func TestServes(t *testing.T) {
	want := map[string]schedule.Serves{"sequential": schedule.SparseTopK, "prefetch": schedule.SparseTopK, "da": schedule.SparseTopK, "dba": schedule.SparseTopK, "layerwise": schedule.SparseTopK, "sfc": schedule.SparseTopK, "tbo": schedule.SparseTopK,
		"gpu": schedule.SparseTopK, "host": schedule.DenseAttended, "host:attend=demand": schedule.SparseTopK, "host:attend=missed": schedule.SparseTopK, "dense": schedule.DenseAttended, "kept": schedule.Compressed, "ellm": schedule.DenseAttended, "flexgen": schedule.DenseAttended, "flexgen:kv=int4": schedule.Quantized,
		"kvpr": schedule.DenseAttended, "kvpr:kv=int4": schedule.Quantized, "kvpr:x=int4": schedule.Quantized}
	for _, name := range schedule.Names() {
		if !slices.Contains(servesOrder, want[name]) {
			t.Errorf("%s is not tested", name)
		}
	}
	for text, want := range want {
		if got := scheduleOf(t, text).Traits().Serves; got != want {
			t.Errorf("%s serves %q, expected %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"prefetch": true, "prefetch:accuracy=0.5": true, "prefetch:accuracy=0": false, "da": false, "gpu": false} {
		if got := scheduleOf(t, text).Traits().Predicted > 0; got != want {
			t.Errorf("%s is an oracle: %t, expected %t", text, got, want)
		}
	}
}

// Candidates are ranked among those that serve the same model. Oracles come last without a rank, at
// any tokens/s.
func TestPlanRanksWithinModels(t *testing.T) {
	p := read(t, realProfile(t))
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, planOptions(t, p, "prefetch", "kvpr:kv=int4", "kvpr", "flexgen", "da", "sequential"))
	fatal.If(t, err)
	var got []string
	for _, c := range plan.Candidates {
		name, _, _ := strings.Cut(c.Schedule, ":")
		got = append(got, name+" "+c.heading()[:6]+" "+strings.TrimSuffix(c.Rank, "="))
	}
	if want := "da sparse 1, sequential sparse 2, flexgen dense  1, kvpr dense  1, kvpr dense  1, prefetch oracle "; strings.Join(got, ", ") != want {
		t.Errorf("candidates %q, expected %q", strings.Join(got, ", "), want)
	}
	if oracle, best := plan.Candidates[5], plan.Candidates[0]; oracle.Tokens <= best.Tokens {
		t.Errorf("the oracle has %g tokens/s, %g the best: the test shows nothing", oracle.Tokens, best.Tokens)
	}
	var text strings.Builder
	fatal.If(t, plan.WriteTable(&text))
	unbroken := strings.ReplaceAll(text.String(), "\n", " ")
	for _, want := range []string{": sparse Top-K attention ", ": dense attention, which is not Top-K attention", ": dense attention, quantised KV, which is not Top-K attention", ", oracle schedule, fitted constant] smollm2-135m on h100, 3 steps: oracles know "} {
		if strings.Count(unbroken, want) != 1 {
			t.Errorf("no heading %q in\n%s", want, &text)
		}
	}
	// A policy that sees the future makes every schedule that moves its misses an oracle.
	future := *p
	future.Meta.Oracles = []string{p.Cell.Policy}
	if plan, err = Search(t.Context(), []*pipeline.Profile{&future}, planOptions(t, p, "da", "gpu")); err != nil {
		t.Fatal(err)
	}
	if c := plan.Candidates; c[0].Schedule != "gpu" || c[0].Oracle || slices.Contains(c[0].Labels, "oracle policy") || !c[1].Oracle || c[1].Rank != "" || !slices.Contains(c[1].Labels, "oracle policy") {
		t.Errorf("candidates %+v and %+v, expected gpu, then da as an oracle", c[0], c[1])
	}
}

// By hand: 100 and 98.5 tie. 97 ties with 98.5 and not with 100, which alone is faster. 96 ties with 97 alone.
func TestPlanTies(t *testing.T) {
	candidate := func(s schedule.Schedule, policy string, tokens float64) Candidate {
		return Candidate{Result: &pipeline.Result{Schedule: s.Name(), Cell: pipeline.Cell{Policy: policy, Capacity: "2x"}, Tokens: tokens, TPOT: 0.0123456}, Serves: schedule.SparseTopK, asked: s}
	}
	da, gpu, tbo, sequential := scheduleOf(t, "da"), scheduleOf(t, "gpu"), scheduleOf(t, "tbo"), scheduleOf(t, "sequential")
	found := []Candidate{candidate(da, "lru", 98.5), candidate(gpu, "", 100), candidate(tbo, "lru", 96), candidate(da, "fifo", 97), candidate(da, "lfu", 90), candidate(sequential, "lru", 97)}
	o := Options{}
	plan := o.planned(slices.Clone(found), nil)
	var got []string
	for _, c := range plan.Candidates {
		got = append(got, c.Schedule+" "+c.Rank)
	}
	if want := "gpu 1=, da 1=, sequential:lookup=gpu 2, tbo 3"; strings.Join(got, ", ") != want {
		t.Errorf("ranks %q, expected %q", strings.Join(got, ", "), want)
	}
	if ties := plan.Candidates[1].Ties; len(ties) != 1 || ties[0].Policy != "fifo" {
		t.Errorf("da ties with %v, expected fifo alone", ties)
	}
	if o.EveryCell = true; len(o.planned(slices.Clone(found), nil).Candidates) != 6 {
		t.Error("with every cell some are left out")
	}
	var text strings.Builder
	fatal.If(t, plan.WriteTable(&text))
	for want, times := range map[string]int{"  12.3 ms ±0 %  ": 4, "      98.5  ": 1, "da: fifo @ 2x ties with lru @ 2x\n": 1, "errors of the model exceed": 1} {
		if strings.Count(text.String(), want) != times {
			t.Errorf("%q is not there %d times:\n%s", want, times, &text)
		}
	}
}

// By hand: the errors of the link hide 15 % between fetching schedules and gpu. da and gpu fetch
// differently, da and sequential alike. So sequential does not tie with da, but the slower gpu does and comes before it.
func TestPlanTiesBeyondALine(t *testing.T) {
	candidate := func(text string, tokens, link float64) Candidate {
		s := scheduleOf(t, text)
		return Candidate{Result: &pipeline.Result{Schedule: s.Name(), Tokens: tokens, TPOT: 1,
			Interval: pipeline.Interval{Submodels: map[string]pipeline.Effect{pipeline.LinkModel.String(): {Slow: link, Fast: link}}}}, Serves: schedule.SparseTopK, asked: s}
	}
	found := []Candidate{candidate("da", 100, 0.15), candidate("sequential", 95, 0.15), candidate("gpu", 90, 0), candidate("tbo", 94, 0.15)}
	var got []string
	for _, c := range (&Options{}).planned(found, nil).Candidates {
		got = append(got, c.Schedule+" "+c.Rank)
	}
	if want := "da 1=, gpu 1=, sequential:lookup=gpu 2=, tbo 2="; strings.Join(got, ", ") != want {
		t.Errorf("ranks %q, expected %q", strings.Join(got, ", "), want)
	}
}

func TestPlanDigits(t *testing.T) {
	for v, want := range map[float64]float64{129600: 130000, 3361: 3360, 0.0123456: 0.0123, 99.96: 100, 2: 2} {
		if got := digits(v); got != want {
			t.Errorf("%g is %g to three digits, expected %g", v, got, want)
		}
	}
}

// The table and the JSON name dropped schedules with the reason.
func TestPlanNamesTheDropped(t *testing.T) {
	p := read(t, realProfile(t))
	o := planOptions(t, p, "gpu", "da", "sequential", "tbo", "kvpr")
	o.MaxBatch = 1
	alone := o.Options
	alone.Batch, alone.Schedule = 1, o.Schedules[2]
	slow := priced(t, p, alone)
	alone.Schedule = o.Schedules[1]
	o.SLO = (slow.TPOT + priced(t, p, alone).TPOT) / 2
	plan, err := Search(t.Context(), []*pipeline.Profile{p}, o)
	fatal.If(t, err)
	var out, text strings.Builder
	fatal.If(t, plan.WriteJSON(&out))
	var back Plan
	fatal.If(t, json.Unmarshal([]byte(out.String()), &back))
	var reasons []string
	for _, d := range back.Dropped {
		name, _, _ := strings.Cut(d.Schedule, ":")
		reasons = append(reasons, name+": "+string(d.Binding))
	}
	if want := "sequential: SLO, tbo: parts of the batch, kvpr: SLO"; strings.Join(reasons, ", ") != want || back.Version != Version || *back.SLO != o.SLO {
		t.Errorf("dropped %q of version %d with the SLO %g, expected %q", strings.Join(reasons, ", "), back.Version, *back.SLO, want)
	}
	if got := *back.Dropped[0].FastestTPOT; math.Abs(got-slow.TPOT) > 1e-9 {
		t.Errorf("the fastest TPOT is %g, expected %g", got, slow.TPOT)
	}
	fatal.If(t, plan.WriteTable(&text))
	if want := "dropped: sequential:lookup=gpu with lru @ 2x: misses the SLO: fastest TPOT " + hardware.Seconds(digits(slow.TPOT)).String() + ", at batch 1\ndropped: tbo with lru @ 2x: it divides the batch into 2 parts, but the largest batch is 1\ndropped: kvpr"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, &text)
	}
	// Memory: the caches of 64 requests do not fit next to the weights. Without a cache they fit.
	machine, gpu := *o.Machine, *o.Machine.GPU
	o.SLO, gpu.Memory.Value = 0, 330e6
	machine.GPU, o.Machine = &gpu, &machine
	if plan, err = Search(t.Context(), []*pipeline.Profile{p}, o); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(plan.Dropped, func(d Dropped) bool { return d.Schedule == "gpu" })
	if i < 0 || plan.Dropped[i].Binding != BindsGPU || !strings.HasPrefix(plan.Dropped[i].Reason, "does not fit: GPU needs ") {
		t.Errorf("dropped %+v, expected that gpu does not fit", plan.Dropped)
	}
}

// An error that moves two candidates alike does not make them a tie. One that moves only one does.
func TestIntervalsTie(t *testing.T) {
	candidate := func(tokens float64, effects map[string]pipeline.Effect) *Candidate {
		return &Candidate{Result: &pipeline.Result{Tokens: tokens, Interval: pipeline.Interval{Submodels: effects}}}
	}
	kernels := map[string]pipeline.Effect{"kernels": {Slow: 0.2, Fast: 0.2}}
	both := map[string]pipeline.Effect{"kernels": {Slow: 0.1, Fast: 0.1}, "link": {Slow: 0.1, Fast: 0.1}}
	best := candidate(100, kernels)
	if c := candidate(95, kernels); c.ties(best) {
		t.Error("both depend on kernels alone, and 5 % are a tie")
	}
	// The difference may move by √(0.1² + 0.1²) = 14 %.
	if c := candidate(87, both); !c.ties(best) {
		t.Error("13 % are no tie")
	}
	if c := candidate(84, both); c.ties(best) {
		t.Error("16 % are a tie")
	}
}

// A table names its results, and each note names the results that it is about.
func TestTableSaysWhatWasRun(t *testing.T) {
	result := func(machine, schedule string, notes ...string) *pipeline.Result {
		return &pipeline.Result{Machine: machine, Model: "m", Schedule: schedule, Cell: pipeline.Cell{Policy: "lru", Capacity: "2x"}, Batch: 8, Steps: 3, Notes: notes}
	}
	results := []*pipeline.Result{
		result("a", "da", "of all", "of a", "of da", "of a da", "of a da and b"),
		result("a", "kvpr:order=row", "of all", "of a", "of kvpr"),
		result("b", "da", "of all", "of da", "of a da and b"),
		result("b", "kvpr:order=row", "of all", "of kvpr", "of a da and b"),
	}
	var text strings.Builder
	fatal.If(t, pipeline.WriteTable(&text, results))
	for _, want := range []string{"m, batch 8, lru @ 2x, 3 steps\n", "note: of all\n", "note: a: of a\n", "note: da: of da\n", "note: a da: of a da\n",
		"note: a da, b da, b kvpr: of a da and b\n", "note: kvpr: of kvpr\n"} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, &text)
		}
	}
	half := 0.5
	text.Reset()
	plan := Plan{Machine: "a", Model: "m", Steps: 3, Candidates: []Candidate{{Result: results[0], Ratio: &half, Serves: schedule.SparseTopK}, {Result: results[1], Serves: schedule.SparseTopK}}}
	fatal.If(t, plan.WriteTable(&text))
	table, notes, _ := strings.Cut(text.String(), "note: ")
	if !strings.HasPrefix(table, "m on a, 3 steps: sparse Top-K attention\n") || !strings.Contains(table, "  0.500      -  ") || !strings.Contains(table, "      -      -  ") {
		t.Errorf("the plan's table lacks model, machine, steps or a ratio:\n%s", table)
	}
	if want := "of all\nnote: of a\nnote: da: of da\nnote: da: of a da\nnote: da: of a da and b\nnote: kvpr: of kvpr\n"; notes != want {
		t.Errorf("notes %q, expected %q", notes, want)
	}
}
