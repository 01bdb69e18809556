package run

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// BenchmarkLossy measures lossy policies and lru, in nanoseconds per demanded block. It replays one
// stream of 16 Ki tokens and 512 steps with K = 1024 and a budget of 2 × K. It leaves out the
// division of memory among the streams of a request.
func BenchmarkLossy(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 9))
	o := replaytest.Options{Prompt: 1 << 14, Steps: 512, Windows: 8, M: 1280, Locality: 0.98, Sink: 4, Local: 64}
	s, meta := replaytest.Stream(r, o), o.Meta(1024)
	replaytest.Masses(r, s, 1)
	so := StreamOptions{Capacity: 2048, Warmup: setting.Warmup{Kind: setting.WarmupRun, Windows: 8}}
	for _, name := range []string{"lru", "streamingllm", "h2o", "snapkv", "pyramidkv", "adakv", "duoattention"} {
		b.Run(name, func(b *testing.B) { benchLossy(b, name, s, &meta, so) })
	}
}

func benchLossy(b *testing.B, name string, s *trace.Stream, meta *trace.Meta, o StreamOptions) {
	var e Engine
	p := specs(b, name)[0].Make()
	var counts cache.Counts
	for b.Loop() {
		var err error
		if counts, err = e.RunStream(s, meta, p, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(counts.Demand), "ns/demanded")
}
