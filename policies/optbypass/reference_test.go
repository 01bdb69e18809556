package optbypass_test

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is MIN with bypass. All residents after the fetches form one order: farthest next
// demand first, then least recently used.
type reference struct {
	policytest.Ledger
	capacity int
	step     *policytest.Step
	gone     []int32
}

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.capacity = sc.Capacity
}

func (r *reference) Resize(capacity int) { r.capacity = capacity }

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	r.step = s
	all := slices.Concat(s.Before, s.Births, s.Demand)
	slices.Sort(all)
	all = slices.Compact(all)
	r.gone = policytest.Least(len(all)-r.capacity, all, r.soon, r.LastUse)
}

func (r *reference) soon(x int32) int64 { return -int64(r.step.Next(x)) }

func (r *reference) KeepOut(_ int, demand []int32) []int32 { return r.among(demand) }

func (r *reference) Victims(_ int, outside []int32) []int32 { return r.among(outside) }

func (r *reference) among(blocks []int32) []int32 {
	return slices.DeleteFunc(blocks, func(x int32) bool { return !slices.Contains(r.gone, x) })
}
