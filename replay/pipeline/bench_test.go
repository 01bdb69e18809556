package pipeline

import (
	"fmt"
	"testing"
)

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
