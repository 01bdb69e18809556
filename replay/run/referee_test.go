package run

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// disguised returns the policy other under the name of another policy.
func disguised(t *testing.T, name, other string) policies.Spec {
	t.Helper()
	s := specs(t, name, other)
	s[0].Make = s[1].Make
	return s[0]
}

// The referee selects a policy by its name, so it finds a policy that runs under a false name. It
// does so for single streams, shared heads, pools, tiers and lossy policies.
func TestRefereeObjects(t *testing.T) {
	exact, lossy := manyStreams(t), lossyFile(t, rand.New(rand.NewPCG(5, 6)), false)
	fifo := disguised(t, "lru", "fifo")
	tier := tiers(t, "dram=lru@6x")
	tier[0].Policy = fifo
	for name, c := range map[string]struct {
		f        *trace.File
		capacity string
		o        Options
	}{
		"alone":          {exact, "4x", Options{Policies: []policies.Spec{fifo}}},
		"shared heads":   {exact, "4x", Options{Policies: []policies.Spec{fifo}, Shape: setting.Shape{ShareHeads: true}}},
		"pool":           {exact, "4x", Options{Policies: []policies.Spec{fifo}, Pool: setting.PoolLayer}},
		"inclusive tier": {exact, "4x", Options{Policies: specs(t, "lru"), Tiers: tier, Inclusive: true}},
		"lossy":          {lossy, "1x", Options{Policies: []policies.Spec{disguised(t, "streamingllm:sink=2", "h2o:scores=ranks")}}},
	} {
		c.o.Capacities = capacities(t, c.capacity)
		if _, err := Run(context.Background(), c.f, c.o); err != nil {
			t.Errorf("%s, not refereed: %v", name, err)
		}
		c.o.Referee = true
		if _, err := Run(context.Background(), c.f, c.o); err == nil || !strings.Contains(err.Error(), "referee: step") {
			t.Errorf("%s: %v, expected an objection", name, err)
		}
	}
}
