package window_test

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the window: blocks last used before step T-N+1 are evicted.
type reference struct {
	policytest.Ledger
	steps, now int64
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	r.now = int64(s.T)
}

func (r *reference) Victims(_ int, outside []int32) []int32 {
	return slices.DeleteFunc(outside, func(x int32) bool { return r.LastUse(x) >= r.now-r.steps+1 })
}
