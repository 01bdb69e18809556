package lookahead

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
)

// A long stream has a block that is always a candidate and is never evicted. The queue stays as
// short as its residents allow, and its victims are those of a plain list.
func TestLongStream(t *testing.T) {
	const blocks, steps, stays = 300, 4000, 0
	r := rand.New(rand.NewPCG(1, 2))
	p, capacity := new(Policy), 40
	fatal.If(t, p.Reset(&policies.Scope{Blocks: blocks, Capacity: capacity, Steps: steps, Demand: 20}))
	outside := []int32{} // in order of last use
	demand := []int32{stays}
	longest := 0
	for step := range int32(steps) {
		s := policies.Step{T: step, Exit: demand, Candidates: []int32{stays}}
		demand = nil
		for _, x := range r.Perm(blocks - 1)[:r.IntN(20)] {
			demand = append(demand, int32(x)+1)
		}
		slices.Sort(demand)
		s.Exit = slices.DeleteFunc(slices.Clone(s.Exit), func(x int32) bool { return slices.Contains(demand, x) })
		for _, x := range demand {
			if slices.Contains(outside, x) {
				s.Hit = append(s.Hit, x)
			}
		}
		s.Demand = len(demand)
		outside = slices.DeleteFunc(append(outside, s.Exit...), func(x int32) bool { return slices.Contains(s.Hit, x) })
		p.Update(&s)
		need := max(0, len(outside)+len(demand)-capacity)
		var want []int32
		for _, x := range outside {
			if len(want) < need && x != stays {
				want = append(want, x)
			}
		}
		outside = slices.DeleteFunc(outside, func(x int32) bool { return slices.Contains(want, x) })
		if got := p.Evict(need, nil); !slices.Equal(got, want) {
			t.Fatalf("step %d: evicts %v, a plain list %v", step, got, want)
		}
		longest = max(longest, len(p.order))
		if p.live != len(outside) {
			t.Fatalf("step %d: %d places are taken, %d blocks are outside the demand", step, p.live, len(outside))
		}
	}
	if most := 8*2*capacity + 1024; longest > most || longest <= 1024 {
		t.Errorf("%d places, at most %d were expected, and more than 1024", longest, most)
	}
}
