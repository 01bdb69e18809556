package run

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The engine checks lists while it derives the delta. It refuses the same streams as the checker of
// the format, with the same errors. K and the replayed rows do not matter.
func TestDeltaRefusesWhatTheFormatForbids(t *testing.T) {
	var e Engine
	refused := 0
	for seed := uint64(0); seed < 4000; seed++ {
		r := rand.New(rand.NewPCG(seed, 31))
		o := replaytest.Medium(r)
		o.Steps++ // at least one row to break
		s, p := draw(r, o)
		replaytest.Damage(r, s, p.pins.Blocks(s.MaxSeqLen()))
		want := trace.NewChecker("stream", p.meta).First(s)
		if p.warmup.Kind == setting.WarmupImportance {
			p.warmup = setting.Warmup{Kind: setting.WarmupCold}
		}
		counts, err := e.RunStream(s, p.meta, new(lru.Policy), StreamOptions{TopK: p.topk, Candidates: p.m, Capacity: 1 + r.IntN(9), Warmup: p.warmup})
		switch {
		case want == nil && err != nil:
			t.Fatalf("seed %d: refused: %v", seed, err)
		case want != nil && err == nil:
			t.Fatalf("seed %d: %v, but the engine counts %+v", seed, want, counts)
		case want != nil && err.Error() != want.Error():
			t.Fatalf("seed %d: %v, the format says: %v", seed, err, want)
		case want != nil:
			refused++
		}
	}
	if refused < 1000 {
		t.Errorf("%d of 4000 streams were broken: the draw no longer covers what it should", refused)
	}
}
