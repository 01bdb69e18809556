package synthetic

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// BenchmarkStream draws streams of 512 rows of 2,560 indices on one core.
func BenchmarkStream(b *testing.B) {
	for _, thousands := range []int{32, 128} {
		b.Run(fmt.Sprintf("%dK", thousands), func(b *testing.B) {
			d := Default()
			d.Context, d.Steps, d.Layers, d.Overlap = thousands<<10, 480, 1, 0.9
			g := NewSource(&d)
			var s trace.Stream
			n := 0
			for b.Loop() {
				g.Stream(0, &s)
				n += len(s.Indices)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mindices/s")
		})
	}
}

// BenchmarkWrite draws and writes traces of 16 such streams, on one core and on all cores. It does
// so with ranks, and with the demand only.
func BenchmarkWrite(b *testing.B) {
	d := Default()
	d.Steps, d.Layers, d.Overlap = 480, 16, 0.9
	ranked, unranked := d, d
	unranked.Order, unranked.Candidates = trace.OrderIndex, d.TopK
	for _, d := range []Dials{ranked, unranked} {
		for _, cores := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("order=%s/cores=%d", d.Order, cores), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
				path := filepath.Join(b.TempDir(), "w.parquet")
				n := 0
				for b.Loop() {
					fatal.If(b, Write(context.Background(), path, &d, Options{Workers: cores}))
					n += d.streams() * (d.Windows + d.Steps) * d.Candidates
					b.StopTimer()
					if err := os.Remove(path); err != nil { // else the next Write frees its memory
						b.Fatal(err)
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mindices/s")
			})
		}
	}
}
