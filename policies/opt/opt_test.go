package opt_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, opt.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, opt.Entry, "", newReference) }

// The block demanded farthest in the future is evicted.
func TestHistory(t *testing.T) {
	policytest.History(t, opt.Entry, "", `
capacity 2
1 | 1 |
2 | 2 |
3 | 3 | 2 # next at T = 4, 1 at T = 3
1 |   |
2 | 2 | 3 # never again
1 |   |
`)
}

// A next demand in a window counts as never, because the window fetches the block for free.
func TestWindows(t *testing.T) {
	policytest.History(t, opt.Entry, "", `
capacity 2
windows 4
1 | 1 |   # T = -4
2 | 2 |
3 | 3 | 1 # a window is next to demand it, 2 is next demanded at T = 0
1 | 1 | 3 # T = -1; 3 is next demanded at T = 1
2 |   |
3 | 3 | 1
`)
}
