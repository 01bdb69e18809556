package window_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/window"
)

func newReference(steps int64) func() policytest.Reference {
	return func() policytest.Reference { return &reference{steps: steps} }
}

func TestConformance(t *testing.T) {
	t.Run("1", func(t *testing.T) { policytest.Run(t, window.Entry, "1", newReference(1)) })
	t.Run("3", func(t *testing.T) { policytest.Run(t, window.Entry, "3", newReference(3)) })
	t.Run("all", func(t *testing.T) { policytest.Run(t, window.Entry, "1073741824", newReference(1073741824)) })
}

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, window.Entry, "2", newReference(2)) }

// A block that the last two steps did not demand is evicted.
func TestHistory(t *testing.T) {
	policytest.History(t, window.Entry, "2", `
1 2 | 1 2 |
2 3 | 3   |
4   | 4   | 1   # last used at T = 0
1   | 1   | 2 3 # last used at T = 1
4   |     |
5   | 5   | 1
`)
}

// A window of no steps is package none.
func TestNoSteps(t *testing.T) {
	policytest.History(t, window.Entry, "0", `
1 2 | 1 2 |  | 1 2
2   | 2   |  | 2
`)
}

// A window longer than any trace is refused, because steps are counted in 32 bits.
func TestTooLong(t *testing.T) {
	for _, options := range []string{"1073741825", "9223372036854775807"} {
		if _, _, err := window.Entry.New(options); err == nil {
			t.Errorf("window:%s was taken", options)
		}
	}
}
