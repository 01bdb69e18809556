package blocklfu_test

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is PQCache's block cache, literally. The blocks of topk(counts) are counted or inserted.
// The other misses are fetched entry by entry.
type reference struct {
	policytest.Ledger
	admit, capacity int
	use             map[int32]int64
	keepOut         []int32
}

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.capacity, r.use = sc.Capacity, map[int32]int64{}
}

func (r *reference) Resize(capacity int) { r.capacity = capacity }

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	for _, x := range s.Births {
		r.use[x] = 0
	}
	topk := policytest.Least(r.most(), s.Demand, func(x int32) int64 { return -int64(s.Picked(x)) })
	r.keepOut = nil
	kept := len(s.Hits)
	for _, x := range topk {
		if slices.Contains(s.Hits, x) {
			r.use[x]++
		} else if kept < r.capacity {
			r.use[x] = 1
			kept++
		} else {
			r.keepOut = append(r.keepOut, x)
		}
	}
	for _, x := range s.Misses {
		if !slices.Contains(topk, x) {
			r.keepOut = append(r.keepOut, x)
		}
	}
	if len(s.Hits) > r.capacity {
		r.keepOut = append(r.keepOut, policytest.Least(len(s.Hits)-r.capacity, s.Hits, func(x int32) int64 { return r.use[x] })...)
	}
}

func (r *reference) most() int {
	if r.admit == 0 {
		return r.capacity
	}
	return r.admit
}

func (r *reference) KeepOut(int, []int32) []int32 { return r.keepOut }

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, func(x int32) int64 { return r.use[x] }, r.LastUse)
}
