package lfu_test

import "github.com/kvreplay/kvreplay/policies/policytest"

// reference is LFU: the fewest demanded steps since insertion are evicted first, then the least
// recently used.
type reference struct{ policytest.Ledger }

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.Uses, r.LastUse)
}
