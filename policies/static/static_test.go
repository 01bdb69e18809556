package static

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, Entry, "", newReference) }

// Two windows choose the set. Block 2 was demanded twice, blocks 1 and 3 once. Block 1 has the lower
// index.
func TestHistory(t *testing.T) {
	policytest.History(t, Entry, "", `
capacity 2
windows 2
1 2   | 1 2 | |
2 3   | 3   | | 3
3 4   | 3 4 | | 3 4
1 3   | 3   | | 3
1 2 3 | 3   | | 3 # more than the capacity is demanded
`)
}

// Births are not kept, whether they are demanded at once or not.
func TestBirths(t *testing.T) {
	policytest.History(t, Entry, "", `
capacity 2
prompt 3
0 | 0 | 2 | 0
3 |   |   | 3 # token 3 is born and demanded
3 | 3 | 4 | 3
`)
}
