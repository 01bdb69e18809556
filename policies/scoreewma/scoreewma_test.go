package scoreewma

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for options, decay := range map[string]float64{"": 0.8, "decay=0": 0, "decay=0.5": 0.5, "decay=1": 1} {
		t.Run(options, func(t *testing.T) {
			if testing.Short() && options != "" {
				t.Skip("with -short the default options are checked")
			}
			policytest.Run(t, Entry, options, func() policytest.Reference { return &reference{decay: decay} })
		})
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, Entry, "", func() policytest.Reference { return &reference{decay: 0.8} })
}

// The means are worked out by hand, with decay 1/2, capacity 2 and steps of one block.
func TestHistory(t *testing.T) {
	p := &Policy{Decay: 0.5}
	fatal.If(t, p.Reset(&policies.Scope{Blocks: 4, Capacity: 2, Steps: 5, Demand: 1}))
	for i, step := range []struct {
		step policies.Step
		want []int32
	}{
		// mean of 0: 1/2, of 1: 9/20
		{policies.Step{Miss: []int32{0}, List: []int32{0, 1}, Scores: []float32{1, 0.9}}, nil},
		// 0: 1/4, 1: 9/40 + 8/40 = 17/40, 2: 3/20
		{policies.Step{Exit: []int32{0}, Miss: []int32{1}, List: []int32{1, 2}, Scores: []float32{0.4, 0.3}}, nil},
		// 0: 1/8, 1: 17/80, 2: 3/40 + 1/2
		{policies.Step{Exit: []int32{1}, Miss: []int32{2}, List: []int32{2}, Scores: []float32{1}}, []int32{0}},
		// Block 0 was evicted and keeps its past: 1/16 + 1/2. Block 1 has 17/160, block 2 23/80.
		{policies.Step{Exit: []int32{2}, Miss: []int32{0}, List: []int32{0}, Scores: []float32{1}}, []int32{1}},
		// 0: 9/32, 2: 23/160
		{policies.Step{Exit: []int32{0}, Miss: []int32{3}, List: []int32{3}, Scores: []float32{1}}, []int32{2}},
	} {
		step.step.T, step.step.Demand = int32(i), 1
		p.Update(&step.step)
		if got := p.Evict(len(step.want), nil); !slices.Equal(got, step.want) {
			t.Errorf("step %d evicts %v, worked out: %v", i, got, step.want)
		}
	}
}

// In a pool of two streams, updates 0 and 1 are one step. At update 3 both means have therefore
// decayed once, 0 to 1/4 and 1 to 3/20. If updates counted, they would be 1/16 and 3/40.
func TestHistoryOfPool(t *testing.T) {
	p := &Policy{Decay: 0.5}
	fatal.If(t, p.Reset(&policies.Scope{Blocks: 4, Capacity: 2, Steps: 6, Demand: 1, PerStep: 2}))
	p.Update(&policies.Step{T: 0, Demand: 1, Miss: []int32{0}, List: []int32{0}, Scores: []float32{1}})
	p.Update(&policies.Step{T: 1, Demand: 1, Miss: []int32{1}, List: []int32{1}, Scores: []float32{0.6}})
	p.Update(&policies.Step{T: 2, Demand: 1, Exit: []int32{0}, Miss: []int32{2}, List: []int32{2}, Scores: []float32{1}})
	p.Update(&policies.Step{T: 3, Demand: 1, Exit: []int32{1}, Miss: []int32{3}, List: []int32{3}, Scores: []float32{0.9}})
	if got := p.Evict(1, nil); !slices.Equal(got, []int32{1}) {
		t.Errorf("evicts %v, worked out: 1", got)
	}
	// In the third step 0, which is listed again, has 1/8 + 3/20, 2 has 1/4 and 3 has 9/40.
	p.Update(&policies.Step{T: 4, Demand: 1, Exit: []int32{2}, Miss: []int32{1}, List: []int32{1, 0}, Scores: []float32{1, 0.3}})
	p.Update(&policies.Step{T: 5, Exit: []int32{3}})
	if got := p.Evict(1, nil); !slices.Equal(got, []int32{3}) {
		t.Errorf("evicts %v, worked out: 3", got)
	}
}

func TestOrdered(t *testing.T) {
	values := []float64{-1e300, -2, -1, -1e-300, 0, 1e-310, 1e-300, 1, 2, 1e300}
	for i := range values[1:] {
		if ordered(values[i]) >= ordered(values[i+1]) {
			t.Errorf("%g is not below %g", values[i], values[i+1])
		}
	}
	if zero := 0.0; ordered(zero) != ordered(-1*zero) {
		t.Error("the two zeros differ")
	}
}
