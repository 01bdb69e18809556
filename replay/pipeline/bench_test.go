package pipeline

import (
	"fmt"
	"testing"
)

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
		o.Schedules = append(o.Schedules, scheduleOf(b, name))
	}
	for b.Loop() {
		if _, err := Plan(b.Context(), []*Profile{p}, o); err != nil {
			b.Fatal(err)
		}
	}
}

// The benchmark prices real misses.
func BenchmarkPrice(b *testing.B) {
	p := read(b, realProfile(b))
	for _, batch := range []int{1, 64} {
		o := options(b, p, "dba")
		o.Batch = batch
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			for b.Loop() {
				priced(b, p, o)
			}
			b.ReportMetric(float64(b.N)*96*30/b.Elapsed().Seconds()/1e6, "Mlayer-steps/s")
		})
	}
}
