package twoq

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/policytest"
)

func TestConformance(t *testing.T) {
	for options, share := range map[string][2]float64{"": {0.25, 0.5}, "kin=0.6,kout=2": {0.6, 2}, "kin=0,kout=0": {0, 0}} {
		t.Run(options, func(t *testing.T) {
			if testing.Short() && options != "" {
				t.Skip("with -short the default options are checked")
			}
			policytest.Run(t, Entry, options, func() policytest.Reference { return &reference{shareIn: share[0], shareOut: share[1]} })
		})
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, Entry, "", func() policytest.Reference { return &reference{shareIn: 0.25, shareOut: 0.5} })
}

// Kin and Kout are 2. A block that comes back after it left A1in enters Am.
func TestHistory(t *testing.T) {
	policytest.History(t, Entry, "kin=0.5,kout=0.5", `
capacity 4
1 2 | 1 2 |
3 4 | 3 4 |
1 5 | 5   | 2   # A1in: 1 to 4, more than Kin; 1 is demanded, which changes nothing else. A1out: 2
2 6 | 2 6 | 1 3 # 2 in A1out: Am. A1in: 1 3 4 5; 1 came in first, though it was used after 3. A1out: 1 3
2 4 |     |
7 8 | 7 8 | 2 4 # A1in: 4 5 6, more than Kin: 4; then 5 6, no more than Kin: 2 of Am. A1out: 3 4
1 4 | 1 4 | 5 6 # 1 is forgotten: A1in; 4 in A1out: Am
`)
}
