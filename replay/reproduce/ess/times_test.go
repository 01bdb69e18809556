package ess

import (
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// A link of half the rate puts Table 2 past its gates.
func TestLinkOfTable2(t *testing.T) {
	b := begin(t, reproduce.Inputs{Short: true})
	m := b.newModel(short)
	b.machine.Link.HostToDevice.Kernel.Regimes[0].Rate.Value /= 2
	b.blind(m)
	if reproduce.Past([]reproduce.Section{b.Section("table-2-unseen").Finish()}) == nil {
		t.Error("a link of half the rate is not noticed in Table 2")
	}
}

// The operators of a step add up to its fitted time, in any division among operators.
func TestOperatorsAddUp(t *testing.T) {
	b := begin(t, reproduce.Inputs{Short: true})
	computing, mtp, requests := step{0.05, 0.0002, 0.00005}, 2, 96.
	p := b.even(0, short)
	r := b.price(&setting{p, allOnTheGPU, int(requests), short, mtp, 1, computing})
	want := computing.fixed + computing.slope*requests*float64(mtp) + computing.request*requests
	if e := r.Causes[schedule.Compute] + r.Causes[schedule.Selecting] - want; e > 1e-6 || e < -1e-6 {
		t.Errorf("computation takes %g s, expected %g s", r.Causes[schedule.Compute]+r.Causes[schedule.Selecting], want)
	}
}
