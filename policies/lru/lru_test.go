package lru_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, lru.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lru.Entry, "", newReference) }

// The block used longest ago is evicted. All blocks of a step were used at once, so the lowest
// index decides.
func TestHistory(t *testing.T) {
	policytest.History(t, lru.Entry, "", `
capacity 3
2 1 | 1 2 |
3   | 3   |
4   | 4   | 1 # 1 and 2 were last used at T = 0
2   |     |
5   | 5   | 3 # last used at T = 1
1   | 1   | 4 # last used at T = 2; 2 at T = 3
`)
}

// A birth was last used at the step before, like the demand of that step.
func TestBirths(t *testing.T) {
	policytest.History(t, lru.Entry, "", `
capacity 2
prompt 3
0 | 0 |     # token 2 is born, last used at T = -1
1 | 1 | 0 2 # token 3 is born, last used at T = 0 as 0 was, which is lower
3 |   | 1   # token 4 is born, last used at T = 1 as 1 was, which is lower
`)
}
