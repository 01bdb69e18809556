package lfudecay_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/policies/lfudecay"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference(halfLife int) func() policytest.Reference {
	return func() policytest.Reference { return &reference{halfLife: halfLife} }
}

func TestConformance(t *testing.T) { policytest.Run(t, lfudecay.Entry, "", newReference(16)) }

// The half-lives range from one step to more steps than any stream has.
func TestConformanceOfHalfLives(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default options are checked")
	}
	for _, h := range []int{1, 2, 5, 1 << 20} {
		t.Run(strconv.Itoa(h), func(t *testing.T) {
			policytest.Run(t, lfudecay.Entry, "half_life="+strconv.Itoa(h), newReference(h))
		})
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, lfudecay.Entry, "half_life=3", newReference(3))
}

// Steps 0 and 1 weigh 1, steps 2 and 3 weigh 2, steps 4 and 5 weigh 4.
func TestHistory(t *testing.T) {
	policytest.History(t, lfudecay.Entry, "half_life=2", `
capacity 2
1 | 1 |
1 |   |
1 |   |   # 1 weighs 1+1+2 = 4
2 | 2 |   # 2 weighs 2
3 | 3 | 2 # 3 weighs 4
4 | 4 | 1 # 1 and 3 weigh 4, 1 was used longest ago; 4 weighs 4
1 | 1 | 3 # as 4, which was used later; 1 begins anew
`)
}

// Seventy steps together weigh 2^71 - 2, and the one before them weighs 1.
func TestHistoryOfManyHalfLives(t *testing.T) {
	policytest.History(t, lfudecay.Entry, "half_life=1", `
capacity 3
1   | 1   |
1 2 | 2   |
`+strings.Repeat("1 2 | |\n", 69)+`
3 4 | 3 4 | 2 # 1 has all that 2 has, and step 0
`)
}
