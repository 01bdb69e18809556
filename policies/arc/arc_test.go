package arc

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, Entry, "", newReference) }

// Ghost hits move the target p from one queue to the other.
func TestHistory(t *testing.T) {
	policytest.History(t, Entry, "", `
capacity 4
1 2 | 1 2 |
3 4 | 3 4 |     # T1: 1 2
1 5 | 5   | 2   # T1: 2 3 4, more than p = 0; 1 is demanded again: T2. B1: 2
2 5 | 2   | 3   # 2 in B1: p = 1. T1: 3 4, more than p. 5 stays: T2. B1: 3
3 6 | 3 6 | 1 2 # 3 in B1: p = 2. T1: 4, no more than p; T2: 1 2 5. B2: 1 2
1 7 | 1 7 | 4 6 # 1 in B2: p = 1. T1: 4 6, more than p; then 6, as many as p, which goes where B2 was hit
`)
}
