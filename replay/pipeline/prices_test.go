package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
)

// randomProfile has requests of different lengths with counts of all sorts.
func randomProfile(r *rand.Rand, requests, layers int) *Profile {
	p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: 256, Local: 1, BlockTokens: 1, SharedHeads: 1, StepTokens: 1}}, Cell: Cell{"lru", "2x"}, Heads: 1}
	for i := range layers {
		p.Layers = append(p.Layers, int32(5*i))
	}
	for i := range requests {
		q := Request{ID: fmt.Sprint(i), Steps: make([][]Counts, layers)}
		for range 4 + r.IntN(4) {
			for l := range q.Steps {
				n, length := r.Int64N(200), 1000*int64(i+1)+int64(len(q.Steps[l]))
				q.Steps[l] = append(q.Steps[l], Counts{Demand: 256, Misses: n, Runs: n/2 + n%2, Moved: n, Resident: 512 + n, Positions: 1, SeqLen: length, Prompt: 1000 * int64(i+1)})
			}
		}
		p.Requests = append(p.Requests, q)
	}
	return p
}

// onSSD puts a third of the misses on the SSD.
func (p *Profile) onSSD() {
	p.Tiered = true
	for _, q := range p.Requests {
		for _, steps := range q.Steps {
			for i := range steps {
				c := &steps[i]
				c.SSDMisses, c.SSDMoved, c.SSDRuns, c.Below = c.Misses/3, c.Moved/3, c.Runs/3, c.Resident
			}
		}
	}
}

// slowStep prices a step layer by layer and part by part.
func slowStep(t *testing.T, r *runner, step int) (s *Step, traffic Traffic, staging float64) {
	t.Helper()
	layers := func(requests []share, traffic *Traffic) (list []Layer) {
		for layer, profiled := range r.options.Scaling.LayerOf {
			sums := r.batch.sum(requests, profiled, step, r.options.Scaling, r.options.Context, int64(r.options.Positions))
			l, moved, err := r.pricer.Layer(layer, &sums)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, l)
			traffic.add(moved)
			if f, ok := r.schedule.(*Prefetch); ok && layer > 0 {
				traffic.H2D += (1 - f.Accuracy) * moved.H2D
			}
			staging = max(staging, moved.H2D)
		}
		return list
	}
	s = &Step{Whole: layers(r.batch.part(0, 1), &traffic)}
	if n := r.schedule.Parts(); n > 1 {
		traffic = Traffic{}
		for i := range n {
			s.Parts = append(s.Parts, layers(r.batch.part(i, n), &traffic))
		}
	}
	for layer := range int(r.options.Model.Layers.Value) {
		if r.pricer.Weights {
			traffic.H2D += LayerWeights(r.options.Model, layer, r.pricer.Experts)
		}
	}
	var err error
	if s.Output, err = r.pricer.Compute.Output(float64(len(r.batch.Drawn))); err != nil {
		t.Fatal(err)
	}
	if d, ok := r.schedule.(denser); ok {
		for _, part := range s.parts() {
			for i := range part {
				l := &part[i].Dense
				n := d.dense().recomputed(l, d.dense().split(s))
				traffic.H2D += l.Bytes*(1-float64(n)/float64(l.Positions)) + float64(n)*l.ActivationBytes
			}
		}
	}
	return s, traffic, staging
}

// slowPrice is a batch's mean step and its traffic, nothing remembered.
func slowPrice(t *testing.T, p *Profile, o Options) (mean, h2d, staging float64) {
	t.Helper()
	r, err := newRunner(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	var exposed Exposure
	for step := range r.batch.Steps {
		s, traffic, most := slowStep(t, r, step)
		tl := NewTimeline()
		r.schedule.Place(tl, s)
		tl.Contend(s)
		for c, v := range tl.Exposure() {
			exposed[c] += v
		}
		h2d, staging = h2d+traffic.H2D, max(staging, most)
	}
	n := float64(r.batch.Steps)
	for c := range exposed {
		exposed[c] /= n
	}
	return exposed.Sum(), h2d / n, staging
}

// Remembered prices are those of every layer and part on its own, to the last bit.
func TestPricesAreTheSlowOnes(t *testing.T) {
	r, sample := rand.New(rand.NewPCG(21, 22)), read(t, realProfile(t))
	base := options(t, sample, "da")
	for _, model := range []string{"smollm2-135m", "deepseek-v3.2"} {
		machine, m := parts(t, "h200", model)
		for _, requests := range []int{1, 5} {
			p := randomProfile(r, requests, 4)
			for _, name := range append(ScheduleNames(), "sfc:parts=3", "kvpr:order=column,batches=2,weights=host", "prefetch:accuracy=0.5") {
				for _, batch := range []int{3, 8} {
					o := base
					o.Machine, o.Model = machine, m
					var err error
					if o.Selection, err = ParseSelection("auto", o.Model); err != nil {
						t.Fatal(err)
					}
					if o.Scaling, err = NewScaling(p, o.Model, []string{"stretch", "nearest"}[batch%2], 300); err != nil {
						t.Fatal(err)
					}
					o.Schedule, o.Batch, o.Merge = schedule(t, name), batch, batch == 3
					if s := o.Schedule.Parts(); s > batch {
						continue
					}
					got := priced(t, p, o)
					if o.Schedule, err = ParseSchedule(got.Schedule); err != nil {
						t.Fatal(err)
					}
					mean, h2d, staging := slowPrice(t, p, o)
					if got.Mean != rounded(mean) || got.H2D != rounded(h2d) || got.Memory.Staging != 0 && got.Memory.Staging != rounded(2*staging) {
						t.Errorf("%s, %d requests, %s, batch %d: %g s, %g B, staging %g; slowly %g, %g, %g", model, requests, name, batch, got.Mean, got.H2D, got.Memory.Staging, mean, h2d, 2*staging)
					}
				}
			}
		}
	}
}

// The number of micro-batches is that of all divisors tried to the end.
func TestCalibrationIsTheSlowOne(t *testing.T) {
	r, sample := rand.New(rand.NewPCG(23, 24)), read(t, realProfile(t))
	for _, batch := range []int{1, 6, 12, 16, 48} {
		p := randomProfile(r, 1+r.IntN(4), 3)
		if batch%4 == 0 {
			p.onSSD()
		}
		o := options(t, sample, "sfc")
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "nearest", 0); err != nil {
			t.Fatal(err)
		}
		o.Batch = batch
		best, least := 0, math.Inf(1)
		for _, n := range divisors(batch) {
			o.Schedule = &SFC{N: n}
			run, err := newRunner(t.Context(), p, o)
			if err != nil {
				t.Fatal(err)
			}
			sum, steps := 0., min(calibrationSteps, run.batch.Steps)
			for i := range steps {
				s, _, _ := slowStep(t, run, i*run.batch.Steps/steps)
				tl := NewTimeline()
				o.Schedule.Place(tl, s)
				tl.Contend(s)
				sum += tl.End()
			}
			if sum < least {
				best, least = n, sum
			}
		}
		o.Schedule = &SFC{}
		if got := priced(t, p, o).Schedule; got != (&SFC{N: best}).Name() {
			t.Errorf("batch %d: %s, the best of all is %d parts", batch, got, best)
		}
	}
}

// A plan is that of prices which never stop early: with an SLO, candidates and what binds
// them are those found without one among the batches that meet it.
func TestPlanStopsEarlyForNothing(t *testing.T) {
	p := randomProfile(rand.New(rand.NewPCG(25, 26)), 3, 4)
	o := planOptions(t, p, "da", "sfc", "tbo", "kvpr")
	for _, slo := range []float64{0.6e-3, 1e-3, 3e-3} {
		o.SLO = slo
		plan, err := Plan(t.Context(), []*Profile{p}, o)
		if err != nil {
			t.Fatal(err)
		}
		got := plan.Candidates
		for i := range got {
			q := o.Options
			q.Batch = got[i].Batch
			if q.Scaling, err = NewScaling(p, q.Model, o.LayerMap, o.TopK); err != nil {
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
