package lfu_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/lfu"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, lfu.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lfu.Entry, "", newReference) }

// The block demanded in the fewest steps is evicted. An eviction forgets the count.
func TestHistory(t *testing.T) {
	policytest.History(t, lfu.Entry, "", `
capacity 2
1 | 1 |
1 |   |   # 1: two steps
2 | 2 |
3 | 3 | 2 # one step, 1 has two
2 | 2 | 3 # one step; 2 begins at one again
4 | 4 | 2 # one step
`)
}
