package schedule

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

func near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %.12g, expected %.12g", what, got, want)
	}
}

func scheduleOf(t testing.TB, text string) Schedule {
	t.Helper()
	s, err := Parse(text)
	fatal.If(t, err)
	return s
}

// busy returns the seconds that a resource works.
func busy(t *Timeline, r Resource) (seconds float64) {
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind.Resource() == r {
			seconds += e.End - e.Start
		}
	}
	return seconds
}

// place runs a schedule and checks properties of all schedules. Times by cause sum to the step.
// Resources execute one operation at a time. An operation begins after its dependencies.
func place(t testing.TB, s Schedule, step *Step) *Timeline {
	t.Helper()
	tl := NewTimeline()
	s.Place(tl, step)
	x := tl.Exposure()
	if math.Abs(x.Sum()-tl.End()) > 1e-9*max(1, tl.End()) {
		t.Errorf("%s: causes sum to %g, the step takes %g", s.Name(), x.Sum(), tl.End())
	}
	for c, v := range x {
		if v < -1e-12 {
			t.Errorf("%s: %s is %g", s.Name(), Cause(c), v)
		}
	}
	var worked Exposure // all work of the SMs counts exactly once
	for _, e := range tl.Events {
		if e.Kind.Resource() == SMs {
			worked[e.Kind.Cause()] += e.End - e.Start
		}
	}
	near(t, s.Name()+": computation", x[Compute], worked[Compute])
	near(t, s.Name()+": selection", x[Selecting], worked[Selecting])
	var free [Resources]float64
	for _, e := range tl.Events {
		if e.End == e.Start {
			continue
		}
		if r := e.Kind.Resource(); e.Start < free[r] {
			t.Fatalf("%s: %s of layer %d begins at %g, %s is busy until %g", s.Name(), e.Kind, e.Layer, e.Start, r, free[r])
		} else {
			free[r] = e.End
		}
	}
	return tl
}

// layers repeats a layer.
func layers(l Layer, n int) *Step {
	s := &Step{}
	for range n {
		s.Whole = append(s.Whole, l)
	}
	return s
}

// divided gives each of n parts a share of selection, lookup and fetch, and an overhead.
func divided(s *Step, n int, overhead float64) *Step {
	for range n {
		var part []Layer
		for _, l := range s.Whole {
			part = append(part, Layer{Select: l.Select/float64(n) + overhead, LookupCPU: l.LookupCPU/float64(n) + overhead,
				Fetch: Transfer{Seconds: l.Fetch.Seconds/float64(n) + overhead}})
		}
		s.Parts = append(s.Parts, part)
	}
	return s
}

// One layer with S=4, Lk=2, F=8, C=4, M=1, and 0.25 of overhead per stage, worked by hand from the
// stages' order.
func TestKVDriveByHand(t *testing.T) {
	l := Layer{Select: 4, LookupCPU: 2, Fetch: Transfer{Seconds: 8}, Attend: 3, Post: 1, Update: 1}
	plain := l
	plain.Select, plain.LookupCPU, plain.Fetch.Seconds = 4.25, 2.25, 8.25
	near(t, "sequential", place(t, scheduleOf(t, "sequential:lookup=cpu"), layers(plain, 1)).End(), 19.75)
	for n, want := range map[int]float64{1: 18.75, 2: 16, 4: 15, 8: 15.25, 16: 16.875} {
		near(t, "sfc", place(t, &SFC{N: n}, divided(layers(l, 1), n, 0.25)).End(), want)
	}
	infinigen := scheduleOf(t, "prefetch")
	more := place(t, infinigen, layers(l, 9)).End() - place(t, infinigen, layers(l, 8)).End()
	near(t, "a layer of prefetch", more, 12)

	step := layers(Layer{Attend: 0, Select: 4}, 1)
	for _, f := range []float64{2, 3, 1, 2} {
		step.Parts = append(step.Parts, []Layer{{Select: 1, LookupCPU: 0.5, Fetch: Transfer{Seconds: f}}})
	}
	near(t, "unequal fetches", place(t, &SFC{N: 4}, step).End(), 9.5)
	near(t, "unequal fetches, closed", (&SFC{N: 4}).Closed(step), 9.5)
}

// essLayer is ESS's overlap at batch 160 over 37 GB/s, with 656 B per miss and request.
func essLayer(misses float64) Layer {
	return Layer{Pre: 0.2e-3, Attend: 1.024e-3, Select: 2e-3, Missed: misses / 2048, Fetch: Transfer{Seconds: misses * 160 * 656 / 37e9}}
}

func TestESSByHand(t *testing.T) {
	dba := scheduleOf(t, "dba:delta_us=100").(*DBA)
	for _, c := range []struct{ misses, none, da, dba float64 }{{128, 0.36311e-3, 0, 0.1e-3}, {512, 1.45243e-3, 0.48443e-3, 0.1e-3}} {
		l := essLayer(c.misses)
		for what, v := range map[string][2]float64{"none": {l.fetching(1), c.none}, "da": {ExposedDA(&l), c.da}, "dba": {dba.Exposed(&l), c.dba}} {
			if math.Abs(v[0]-v[1]) > 2e-8 {
				t.Errorf("%s at %g misses exposes %g s, expected %g", what, c.misses, v[0], v[1])
			}
		}
		compute := l.Select + l.Pre + l.Attend
		near(t, "da", place(t, DA{}, layers(l, 1)).End(), compute+ExposedDA(&l))
		near(t, "dba", place(t, dba, layers(l, 1)).End(), compute+dba.Exposed(&l))
		step := layers(l, 1)
		near(t, "layerwise", place(t, &Layerwise{*dba}, step).End(), min(DA{}.Closed(step), dba.Closed(step)))
	}
	// The fetch is hidden up to (W_pre + W_attn) / (τ + W_attn/K) misses, and with DBA φ·W_idx
	// more.
	for want, exposed := range map[float64]func(*Layer) float64{366.8: ExposedDA, 666.5: scheduleOf(t, "dba").(*DBA).Exposed} {
		hidden, shown := essLayer(want-0.1), essLayer(want+0.1)
		if exposed(&hidden) > 0 || exposed(&shown) <= 0 {
			t.Errorf("at %g misses %g s are exposed, at %g %g", want-0.1, exposed(&hidden), want+0.1, exposed(&shown))
		}
	}
	switchAt := (0.1e-3 + 0.2e-3 + 1.024e-3) / (160*656/37e9 + 1.024e-3/2048)
	below, above := essLayer(switchAt-1), essLayer(switchAt+1)
	if ExposedDA(&below) >= dba.Exposed(&below) || ExposedDA(&above) <= dba.Exposed(&above) {
		t.Errorf("da and dba do not change places at %.1f misses", switchAt)
	}
}

// A fetch of half a batch cannot begin before its own selection. If the fetch is short, DBA takes
// longer than the closed form.
func TestDBAIsHonest(t *testing.T) {
	l := Layer{Select: 10, Fetch: Transfer{Seconds: 4}}
	dba := scheduleOf(t, "dba").(*DBA)
	near(t, "dba", place(t, dba, layers(l, 1)).End(), 12)
	near(t, "closed form", dba.Closed(layers(l, 1)), 10)
}

func kvprLayer(x, y, g float64, positions, prompt int) Layer {
	return Layer{Dense: Dense{KV: Transfer{Seconds: y * float64(positions)}, Positions: positions, Prompt: prompt, Activations: x, Recompute: g}}
}

func TestKVPRByHand(t *testing.T) {
	l := kvprLayer(10, 20, 30, 100, 100)
	if n := l.Dense.SplitPoint(); n != 40 {
		t.Errorf("split at %d, expected 40", n)
	}
	near(t, "row", place(t, scheduleOf(t, "kvpr"), layers(l, 1)).End(), 1600)
	short := kvprLayer(10, 20, 30, 100, 30)
	near(t, "row, prompt 30", place(t, scheduleOf(t, "kvpr"), layers(short, 3)).End(), 3*1700)
	near(t, "not shipped", func() float64 { d := kvprLayer(0, 20, 30, 100, 100).Dense; return d.RecomputeTime(d.SplitPoint()) }(), 1200)

	step := layers(l, 4)
	for i := range step.Whole {
		step.Whole[i].Dense.Weights = 500
	}
	for range 8 {
		step.Parts = append(step.Parts, step.Whole)
	}
	column := scheduleOf(t, "kvpr:order=column,batches=8,weights=host,recompute=paper").(*KVPR)
	near(t, "column", place(t, column, step).End(), 4*(500+8*1600))
	near(t, "column, closed", column.Closed(step), 4*(500+8*1600))
	// Column by column, recomputing overlaps the next transfers. 50 positions keep both resources
	// busy: 50·10 + 50·20 on the link, 50·30 on the GPU. The last 1500 begin when the last
	// activations have arrived, which is 1000 before the link's end.
	fastest := scheduleOf(t, "kvpr:order=column,batches=8,weights=host").(*KVPR)
	near(t, "column, fastest", place(t, fastest, step).End(), 4*(500+8*1500)+500)
}

// The split is the best of all l, tried one by one.
func TestSplitIsLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	for range 2000 {
		s := 1 + r.IntN(60)
		d := Dense{Positions: s, Prompt: r.IntN(80), Activations: r.Float64(), Recompute: 3 * r.Float64()}
		d.KV.Fixed = r.Float64() * 5 * float64(r.IntN(2))
		d.KV.Seconds = d.KV.Fixed + float64(s)*2*r.Float64()
		best := math.Inf(1)
		for l := 0; l <= min(s, d.Prompt); l++ {
			best = min(best, d.RecomputeTime(l))
		}
		if got := d.RecomputeTime(d.SplitPoint()); math.Abs(got-best) > 1e-12 {
			t.Fatalf("%+v: split %d takes %g, the least is %g", d, d.SplitPoint(), got, best)
		}
	}
}

// random returns a step whose transfers come from host memory alone.
func random(r *rand.Rand, n int) *Step {
	s := &Step{Output: r.Float64()}
	for range n {
		l := Layer{Project: r.Float64(), Select: r.Float64(), Pre: r.Float64(), Attend: r.Float64(), Post: r.Float64(),
			LookupGPU: r.Float64(), LookupCPU: r.Float64(), Update: 0.01, Missed: r.Float64(), Fetch: Transfer{Seconds: 4 * r.Float64()},
			Store: 0.01 * r.Float64(), Scatter: r.Float64()}
		if r.IntN(2) == 0 { // experts on several GPUs
			l.Dispatch, l.Combine, l.Routed = r.Float64(), r.Float64(), l.Post*r.Float64()
		}
		l.Dense = Dense{Attend: l.Attend, KV: Transfer{Seconds: 20}, Positions: 10}
		s.Whole = append(s.Whole, l)
	}
	return s
}

// If the assumptions of a closed form hold, it equals the timeline.
func TestClosedForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s := random(r, 1+r.IntN(9))
		for _, name := range []string{"sequential", "sequential:lookup=cpu", "prefetch", "da", "da:attend=whole", "dba:phi=0,delta_us=5", "layerwise", "layerwise:phi=0.3,delta_us=1", "sfc:parts=1", "flexgen", "gpu", "dense"} {
			c := scheduleOf(t, name).(Closed)
			near(t, name, place(t, c, s).End(), c.Closed(s))
		}
		n := 1 + r.IntN(5)
		sfc := &SFC{N: n}
		near(t, sfc.Name(), place(t, sfc, divided(s, n, 0.1)).End(), sfc.Closed(s))
		honest := scheduleOf(t, "dba").(*DBA)
		if end := place(t, honest, s).End(); end < honest.Closed(s)-1e-9 {
			t.Errorf("dba takes %g, less than its closed form %g", end, honest.Closed(s))
		}
	}
}

// With transfers from the SSD as well, every schedule keeps all causes and the order of resources.
func TestSSD(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		s := random(r, 5)
		for i := range s.Whole {
			s.Whole[i].Read, s.Whole[i].Hop, s.Whole[i].Store, s.Whole[i].Gather = r.Float64()*3, Transfer{Seconds: r.Float64()}, r.Float64(), 0.1
		}
		s.Parts = [][]Layer{s.Whole, s.Whole}
		for _, name := range Names() {
			place(t, scheduleOf(t, name), s)
		}
	}
	l := Layer{Fetch: Transfer{Seconds: 32}, Read: 100, Hop: Transfer{Seconds: 8}}
	x := place(t, scheduleOf(t, "sequential"), layers(l, 1)).Exposure()
	near(t, "ssd", x[Drive], 100)
	near(t, "fetch", x[Fetch], 8)
}

// A wrong prediction costs time.
func TestPrefetchAccuracy(t *testing.T) {
	s, before := random(rand.New(rand.NewPCG(8, 9)), 12), 0.
	for _, name := range []string{"prefetch", "prefetch:accuracy=0.9", "prefetch:accuracy=0.5", "prefetch:accuracy=0"} {
		end := place(t, scheduleOf(t, name), s).End()
		if end <= before {
			t.Errorf("%s takes %g, no more than %g with better predictions", name, end, before)
		}
		before = end
	}
}

// Wrong predictions are selected, looked up and fetched again in every layer but the first. The
// first layer waits for its own selection.
func TestWrongPredictionsLookUpAgain(t *testing.T) {
	const n = 4
	var looked, selected, fetched float64
	for _, e := range place(t, scheduleOf(t, "prefetch:accuracy=0.75"), layers(Layer{Project: 1, Select: 2, LookupGPU: 3, Attend: 1, Fetch: Transfer{Seconds: 8}}, n)).Events {
		switch e.Kind {
		case LookupGPU:
			looked += e.End - e.Start
		case Select:
			selected += e.End - e.Start
		case FetchBlocks, FetchAhead:
			fetched += e.End - e.Start
		}
	}
	near(t, "lookups", looked, 3*(n+n-1))
	near(t, "selections", selected, 2*(n+n-1))
	near(t, "fetches", fetched, 8*(1+(n-1)*1.25))
}

func TestTwoBatches(t *testing.T) {
	l := Layer{Project: 1, Attend: 4, Fetch: Transfer{Seconds: 5}}
	s := layers(l, 10)
	s.Parts = [][]Layer{s.Whole, s.Whole}
	// Each half computes 5 per layer while the other fetches 5, so the SMs wait only at the start.
	tl := place(t, scheduleOf(t, "tbo"), s)
	near(t, "computation", busy(tl, SMs), 100)
	if tl.End() > 106 {
		t.Errorf("two batches take %g, expected at most 106", tl.End())
	}
}

func TestParseSchedule(t *testing.T) {
	for _, e := range table {
		s := scheduleOf(t, e.name)
		if again := scheduleOf(t, s.Name()); again.Name() != s.Name() {
			t.Errorf("%s parses to %s", s.Name(), again.Name())
		}
	}
	for text, want := range map[string]string{
		"dab": "known: sequential", "dba:psi=1": `unknown option "psi"`, "kvpr:batches=2": "order=column", "sfc:parts=0": "between 1",
		"da:x=1": `unknown option "x"; known: attend`, "gpu:x=1": `unknown option "x": expected none`, "prefetch:accuracy=2": "between 0 and 1",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// The benchmark prices one layer and step three ways: by closed form, by events with the time by
// cause, and from a profile's counts.
func BenchmarkLayerSteps(b *testing.B) {
	step := random(rand.New(rand.NewPCG(1, 1)), 61)
	step.Parts = [][]Layer{step.Whole, step.Whole, step.Whole, step.Whole}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*float64(len(step.Whole))/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
	}
	for _, name := range []string{"sequential", "prefetch", "da", "dba", "layerwise", "sfc:parts=4", "kvpr:order=column,batches=4", "flexgen"} {
		s := scheduleOf(b, name)
		b.Run("closed/"+name, func(b *testing.B) {
			c, sum := s.(Closed), 0.
			for b.Loop() {
				sum += c.Closed(step)
			}
			if sum <= 0 {
				b.Fatal("no time")
			}
			report(b)
		})
		b.Run("events/"+name, func(b *testing.B) {
			t, sum := NewTimeline(), 0.
			for b.Loop() {
				t.Reset()
				s.Place(t, step)
				x := t.Exposure()
				sum += x.Sum()
			}
			if sum <= 0 {
				b.Fatal("no time")
			}
			report(b)
		})
	}
}
