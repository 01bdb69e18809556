package opt_test

import "github.com/kvreplay/kvreplay/policies/policytest"

// reference is MIN: the farthest next demand is evicted first, then the least recently used. A
// demand in a warm-up window does not count (SEMANTICS S9).
type reference struct {
	policytest.Ledger
	step *policytest.Step
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	r.step = s
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.soon, r.LastUse)
}

func (r *reference) soon(x int32) int64 { return -int64(r.step.Next(x)) }
