package lru_test

import "github.com/kvreplay/kvreplay/policies/policytest"

// reference is LRU: the earliest last use is evicted first, then the lowest index.
type reference struct{ policytest.Ledger }

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.LastUse)
}
