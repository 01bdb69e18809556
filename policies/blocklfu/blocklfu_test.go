package blocklfu_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/blocklfu"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for options, admit := range map[string]int{"": 0, "admit=1": 1, "admit=3": 3} {
		t.Run(options, func(t *testing.T) {
			if testing.Short() && options != "" {
				t.Skip("with -short the default options are checked")
			}
			policytest.Run(t, blocklfu.Entry, options, func() policytest.Reference { return &reference{admit: admit} })
		})
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, blocklfu.Entry, "admit=2", func() policytest.Reference { return &reference{admit: 2} })
}

// Blocks have ten entries, so 11 is the second entry of block 1. The policy admits the block with the
// most demanded entries. The other blocks are fetched and kept out.
func TestHistory(t *testing.T) {
	policytest.History(t, blocklfu.Entry, "admit=1", `
capacity 2
entries 10
10 11 20    | 1 2 |   | 2   # block 1 has two of the three
10 20 21    | 2   |   |     # block 2 has two; 1 hits and is not counted
30 31 10    | 3   | 2 |     # both counted once; 2 is outside the demand
40 30 31    | 4   |   | 4   # block 3 has two and is counted again
40 41 42 10 | 4   | 3 |     # block 4 is admitted beside 1
20 40       | 2   | 1 |     # one entry each: the lower index is admitted beside 4, which hits
`)
}
