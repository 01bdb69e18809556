package pipeline

import (
	"math/rand/v2"
	"testing"
)

// One layer and step by closed form, by events with the time by cause, and with pricing
// from a profile's counts.
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
