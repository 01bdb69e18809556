package window

import "github.com/kvreplay/kvreplay/policies"

// ages answers every window at once. A block that left the demand at step j was last used at j-1.
// It is resident at the start of step t if N ≥ t-j+1. Cost: O(1) per change of the demand and O(N)
// per step. Memory: 4 B per block of the context.
type ages struct {
	window int32   // of the policy that made the pass
	joined []int32 // step at which a block left the demand or was born, otherwise unseen
	left   []int32 // number of blocks that joined at each step and are still outside
	step   int32   // recorded steps so far
	demand int32
}

// unseen is the step of a block that is demanded or was never seen.
const unseen = -1

var _ policies.Sweeper = (*Policy)(nil)

// Sweep returns a pass over all windows.
func (p *Policy) Sweep(self policies.Policy) policies.Sweep {
	if self != policies.Policy(p) {
		return nil
	}
	return &ages{window: int32(p.Steps)}
}

// Size returns the window. It does not depend on the capacity.
func (a *ages) Size(int) int32 { return a.window }

// Reset starts a stream.
func (a *ages) Reset(sc *policies.Scope, _ []int32) error {
	a.joined = policies.Fill(a.joined, sc.Blocks, unseen)
	a.left = a.left[:0]
	a.step, a.demand = 0, 0
	return nil
}

// Distances applies a step.
func (a *ages) Distances(s *policies.Step, dst []int32) []int32 {
	for _, x := range s.Miss {
		j := a.joined[x]
		if j == unseen {
			dst = append(dst, policies.Never)
			continue
		}
		dst = append(dst, a.step-j+1)
		a.joined[x] = unseen
		a.left[j]--
	}
	for _, x := range s.Exit {
		a.joined[x] = a.step
	}
	for _, x := range s.Offered {
		a.joined[x] = a.step
	}
	for _, x := range s.Hit {
		a.joined[x] = unseen
	}
	a.left = append(a.left, int32(len(s.Exit)+len(s.Offered)-len(s.Hit)))
	a.demand = int32(s.Demand)
	a.step++
	return dst
}

// Residents counts the demand and the blocks that joined in the last N-1 steps, this one included.
func (a *ages) Residents(sizes, dst []int32) []int32 {
	n, j := a.demand, a.step
	for _, window := range sizes {
		for ; j > 0 && a.step-j < window-1; j-- {
			n += a.left[j-1]
		}
		dst = append(dst, n)
	}
	return dst
}
