package lookahead_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/lookahead"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, lookahead.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lookahead.Entry, "", newReference) }

// The blocks that the list lacks are evicted first, then the worst rank of the list.
func TestHistory(t *testing.T) {
	policytest.History(t, lookahead.Entry, "", `
capacity 2
topk 1
1 9   | 1 |
2 1   | 2 |
3 1   | 3 | 2 # not a candidate, though used later than 1
4 3 1 | 4 | 1 # both are candidates, 1 is ranked worse
5     | 5 | 3 # no candidates: least recently used
`)
}
