package lirs

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for options, share := range map[string]float64{"": 0.01, "hir=0": 0, "hir=0.3": 0.3, "hir=1": 1} {
		t.Run(options, func(t *testing.T) {
			if testing.Short() && options != "" {
				t.Skip("with -short the default options are checked")
			}
			policytest.Run(t, Entry, options, func() policytest.Reference { return &reference{share: share} })
		})
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, Entry, "", func() policytest.Reference { return &reference{share: 0.01} })
}

// The cache holds three LIR blocks and one HIR block.
func TestHistory(t *testing.T) {
	policytest.History(t, Entry, "hir=0.25", `
capacity 4
1 2 | 1 2 |
3 4 | 3 4 |     # LIR: 1 2 3; the set is full and 4 a HIR block
4 5 | 5   | 1   # 4 stays: LIR, and 1, the lowest on S, goes to Q
5 6 | 6   | 2   # 5 stays: LIR, and 2 goes to Q
7 8 | 7 8 | 3 6 # Q: 6, which stays on S as a ghost; then Q is empty, and 3 is the lowest on S
6 7 | 6   | 8   # 6 is a ghost on S: LIR; 7 stays: LIR; 4 goes to Q behind 8, which becomes a ghost
4 8 | 8   | 5   # 4 was in Q, not on S: a HIR block; 8 is a ghost on S: LIR, and 5 goes to Q
`)
}
