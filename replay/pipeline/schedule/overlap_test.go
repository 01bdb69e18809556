package schedule

import (
	"math/rand/v2"
	"testing"
)

// The SM time of a gather kernel is exposed even if its fetch is hidden. Timeline and closed forms
// agree on it, and the layer-wise choice is the better of both.
func TestOverlapWithGather(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	dba := scheduleOf(t, "dba:delta_us=20").(*DBA)
	for range 2000 {
		l := Layer{Pre: r.Float64(), Attend: 2 * r.Float64(), Select: 2 * r.Float64(), Missed: r.Float64(), Gather: r.Float64() / 4,
			Fetch: Transfer{Seconds: 0.01 + 4*r.Float64(), Fixed: 0.01}}
		step := layers(l, 2)
		da, split := place(t, DA{}, step).End(), place(t, dba, step).End()
		near(t, "da", da, DA{}.Closed(step))
		near(t, "dba", split, 2*(l.hidden()+dba.exposedApart(&l)))
		near(t, "layerwise", place(t, &Layerwise{*dba}, step).End(), min(da, split))
	}
}
