package replay

import (
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// drawShape draws streams that share a cache and how their rows are joined.
func drawShape(r *rand.Rand) ([]trace.Stream, *plan) {
	o := replaytest.Medium(r)
	o.BlockTokens = 1 + r.IntN(2)
	l := layout{factor: 1 + r.IntN(5), heads: 1 + r.IntN(3), mtp: 1 + r.IntN(4)}
	if l.heads > 1 {
		o.Gap = 0 // the heads of a layer are recorded at the same steps
	}
	s, p := draw(r, o)
	streams := []trace.Stream{*s}
	for len(streams) < l.heads {
		streams = append(streams, *replaytest.Stream(r, o))
	}
	p.layout = l
	p.pins.BlockTokens *= l.factor
	return streams, p
}

// Lists of entries, joined to blocks, over heads and over positions, are replayed as
// the referee replays them, which joins them in its own way.
func TestShapesAgreeWithReferee(t *testing.T) {
	var b bench
	cells := 0
	for seed := uint64(0); seed < 1200; seed++ {
		r := rand.New(rand.NewPCG(seed, 71))
		streams, p := drawShape(r)
		if streams[0].Rows == streams[0].Windows {
			continue
		}
		for _, name := range names {
			spec, _ := all.Table().Parse(name)
			if p.unable(spec, policies.NeedsOf(spec.Make())) != "" {
				continue
			}
			b.runShared(t, p, streams, name, 1+r.IntN(2*p.topk))
			if t.Failed() {
				t.Fatalf("seed %d: %d heads, layout %+v", seed, len(streams), p.layout)
			}
			cells++
		}
	}
	if cells < 5000 {
		t.Errorf("%d cells, expected thousands", cells)
	}
}
