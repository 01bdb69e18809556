package optbypass_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/optbypass"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, optbypass.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, optbypass.Entry, "", newReference) }

// A fetched block is not kept if all residents are demanded sooner.
func TestHistory(t *testing.T) {
	policytest.History(t, optbypass.Entry, "", `
capacity 1
1   | 1   |   |
2   | 2   |   | 2   # never demanded again, 1 at the next step
1   |     |   |
3 4 | 3 4 | 1 | 3   # two do not fit: 4 is demanded next, 3 and 1 never
4   |     |   |
`)
}
