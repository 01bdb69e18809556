package none_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/none"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, none.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, none.Entry, "", newReference) }

// Every demanded block is fetched, except a token that leaves the local window when it is demanded.
func TestHistory(t *testing.T) {
	policytest.History(t, none.Entry, "", `
prompt 3
0 1 | 0 1 | 2 | 0 1 # token 2 is born and not demanded
0 3 | 0   |   | 0 3 # token 3 is born and demanded: a hit
0 3 | 0 3 | 4 | 0 3
`)
}
