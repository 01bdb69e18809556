package lookahead_test

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is lookahead: residents outside the step's list are evicted first, least recently used
// first. The worst rank follows.
type reference struct {
	policytest.Ledger
	list []int32
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	r.list = s.List
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.liked, r.LastUse)
}

// liked returns a number that is higher for a better rank, and lowest without a rank.
func (r *reference) liked(x int32) int64 {
	if rank := slices.Index(r.list, x); rank >= 0 {
		return -int64(rank)
	}
	return math.MinInt64
}
