package run

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// The engine and the referee agree on prefetching from both sources, with every policy and shape.
// Prompt windows prefetch nothing.
func TestPrefetchAgreesWithReferee(t *testing.T) {
	var b bench
	var total cache.Counts
	onShapes(t, draws(250), 81, func(r *rand.Rand, p *plan, streams []trace.Stream, name string) {
		b.prefetch, b.staging = setting.PrefetchPredicted, 1+r.IntN(p.topk+2)
		if len(streams[0].PredictedOffsets) == 0 || r.IntN(2) == 0 {
			b.prefetch = setting.PrefetchCandidates
		}
		counts := b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
		if counts.Prefetched != counts.PrefetchUseful+counts.PrefetchUseless {
			t.Fatalf("%s, prefetch %s of %d: %d prefetched, %d useful, %d useless", name, b.prefetch, b.staging, counts.Prefetched, counts.PrefetchUseful, counts.PrefetchUseless)
		}
		total.Add(&counts)
	})
	if least := int64(draws(1000)); total.PrefetchUseful < least || total.PrefetchLate < least || total.PrefetchUseless < least {
		t.Errorf("%+v: expected thousands of useful, late and useless prefetches", total)
	}
}
