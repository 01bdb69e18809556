package mru_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"

	"example.com/kvreplay-mru/mru"
)

// reference is MRU by its definition: the latest last use is evicted first.
type reference struct{ policytest.Ledger }

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, func(x int32) int64 { return -r.LastUse(x) })
}

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, mru.Entry, "", newReference) }

// A loop of three in a cache of two: LRU would miss at every step.
func TestLoop(t *testing.T) {
	policytest.History(t, mru.Entry, "", `
capacity 2
1 | 1 |
2 | 2 |
3 | 3 | 2
1 |   |
2 | 2 | 1
3 |   |
1 | 1 | 3
2 |   |
`)
}
