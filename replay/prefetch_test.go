package replay

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
)

// Prefetches of both sources are staged, used and lost as the referee counts them, with
// every policy and shape; windows prefetch nothing.
func TestPrefetchAgreesWithReferee(t *testing.T) {
	var b bench
	var total Counts
	for seed := uint64(0); seed < draws(800); seed++ {
		r := rand.New(rand.NewPCG(seed, 81))
		streams, p := drawShape(r)
		if streams[0].Rows == streams[0].Windows {
			continue
		}
		b.prefetch, b.staging = PrefetchPredicted, 1+r.IntN(p.topk+2)
		if len(streams[0].PredictedOffsets) == 0 || r.IntN(2) == 0 {
			b.prefetch = PrefetchCandidates
		}
		for _, name := range names {
			spec, _ := all.Table().Parse(name)
			if p.unable(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			counts := b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
			if t.Failed() {
				t.Fatalf("seed %d: %d heads, layout %+v, prefetch %s of %d", seed, len(streams), p.layout, b.prefetch, b.staging)
			}
			if counts.Prefetched != counts.PrefetchUseful+counts.PrefetchUseless {
				t.Fatalf("seed %d, %s: %d prefetched, %d useful, %d useless", seed, name, counts.Prefetched, counts.PrefetchUseful, counts.PrefetchUseless)
			}
			total.Add(&counts)
		}
	}
	if least := int64(draws(1000)); total.PrefetchUseful < least || total.PrefetchLate < least || total.PrefetchUseless < least {
		t.Errorf("%+v: expected thousands of useful, late and useless prefetches", total)
	}
}
