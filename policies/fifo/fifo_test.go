package fifo_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, fifo.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, fifo.Entry, "", newReference) }

// The block inserted first is evicted, however often it was used since.
func TestHistory(t *testing.T) {
	policytest.History(t, fifo.Entry, "", `
capacity 2
1 | 1 |
2 | 2 |
1 |   |
3 | 3 | 1 # came in at T = 0, 2 at T = 1, though 1 was used later
1 | 1 | 2 # 1 comes in anew, at T = 4
4 | 4 | 3
`)
}
