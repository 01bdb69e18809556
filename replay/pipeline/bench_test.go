package pipeline

import (
	"math/rand/v2"
	"testing"
)

// The benchmark prices one layer and step three ways: by closed form, by events with the time by
// cause, and from a profile's counts.
func BenchmarkLayerSteps(b *testing.B) {
	step := random(rand.New(rand.NewPCG(1, 1)), 61)
	step.Parts = [][]Layer{step.Whole, step.Whole, step.Whole, step.Whole}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*float64(len(step.Whole))/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
	}
	for _, name := range []string{"sequential", "prefetch", "da", "dba", "layerwise", "sfc:parts=4", "kvpr:order=column,batches=4", "flexgen"} {
		s := schedule(b, name)
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
	p := read(b, realProfile(b))
	for _, batch := range []int{1, 64} {
		o := options(b, p, "dba")
		o.Batch = batch
		b.Run(map[int]string{1: "priced/batch=1", 64: "priced/batch=64"}[batch], func(b *testing.B) {
			for b.Loop() {
				priced(b, p, o)
			}
			b.ReportMetric(float64(b.N)*96*30/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
		})
	}
}

// The benchmark plans for a model of 61 layers from two cells, with the schedules that `kvreplay
// plan` chooses from.
func BenchmarkPlan(b *testing.B) {
	path := realProfile(b)
	p := read(b, path)
	o := PlanOptions{Options: options(b, p, "da"), LayerMap: "stretch", TopK: 2048, MaxBatch: 512}
	o.Machine, o.Model = parts(b, "h200", "deepseek-v3.2")
	o.Context, o.SLO = 32768, 0.1
	var err error
	if o.Selection, err = ParseSelection("auto", o.Model); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"layerwise", "tbo", "sfc", "kvpr", "flexgen", "gpu"} {
		o.Schedules = append(o.Schedules, schedule(b, name))
	}
	for b.Loop() {
		if _, err := Plan(b.Context(), []*Profile{p}, o); err != nil {
			b.Fatal(err)
		}
	}
}
