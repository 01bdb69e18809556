package echo

import (
	"math/bits"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// BenchmarkStep measures the steps of a stream without evictions. It reports the sum of the fastest
// replays of each step, so other load on the machine disturbs little.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name, path string
		stream, k  int
	}{
		{"synthetic", "", 0, 2048},
		{"news", "bundled/smollm2_multi_news_8k", 3, 256},
		{"questions", "corpus/wide_questions", 3, 256},
		{"deep", "corpus/deep_vt", 3, 24},
	} {
		b.Run("trace="+c.name, func(b *testing.B) {
			s := new(trace.Stream)
			if c.path == "" {
				s = replaytest.Overlapping(1, 32<<10, c.k, c.k+c.k/4, 512, 0.9)
			} else {
				f, err := trace.Open("../../datasets/" + c.path + ".parquet")
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				r := f.NewReader(0)
				defer r.Close()
				if err := r.Read(c.stream, s); err != nil {
					b.Fatal(err)
				}
			}
			blocks := 0
			for i := range s.Steps {
				for _, x := range s.List(i) {
					blocks = max(blocks, int(x)+1)
				}
			}
			var h history
			fastest := make([]time.Duration, len(s.Steps))
			var active, demand int
			for n := range max(b.N, 3) {
				h.reset(blocks, true, &published)
				active, demand = 0, 0
				for i := range s.Steps {
					list := s.List(i)
					k := min(c.k, len(list))
					begun := time.Now()
					h.step(nil, list[:k], list[k:])
					took := time.Since(begun)
					if n == 0 || took < fastest[i] {
						fastest[i] = took
					}
					demand += k
					for _, w := range h.active {
						active += bits.OnesCount64(w)
					}
				}
			}
			var all time.Duration
			for _, d := range fastest {
				all += d
			}
			steps := float64(len(s.Steps))
			b.ReportMetric(float64(active)/steps, "active/step")
			b.ReportMetric(float64(all.Nanoseconds())/float64(active), "ns/active")
			b.ReportMetric(float64(all.Microseconds())/steps, "µs/step")
			b.ReportMetric(float64(demand)/all.Seconds()/1e6, "Maccess/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
