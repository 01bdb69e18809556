package lrfu_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/lrfu"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference(gamma float64, forget bool) func() policytest.Reference {
	return func() policytest.Reference { return &reference{gamma: gamma, forget: forget} }
}

func TestConformance(t *testing.T) { policytest.Run(t, lrfu.Entry, "", newReference(0.95, false)) }

func TestConformanceOfOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default options are checked")
	}
	for text, newReference := range map[string]func() policytest.Reference{
		"gamma=0.8":                  newReference(0.8, false),
		"gamma=0.999,history=forget": newReference(0.999, true),
	} {
		t.Run(text, func(t *testing.T) { policytest.Run(t, lrfu.Entry, text, newReference) })
	}
}

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lrfu.Entry, "", newReference(0.95, false)) }

const history = `
capacity 2
1 | 1 |
1 |   |
1 |   |   # 1 has the rate 1 + .8 + .64 = 2.44
2 | 2 |
3 | 3 | 2 # .8; 1 has 1.56
4 | 4 | 3 # .8; 1 has 1.25
3 | 3 | 4 # .8; 1 has 1.00
5 | 5 | 1 # .80; 3 has more
`

func TestHistory(t *testing.T) {
	policytest.History(t, lrfu.Entry, "gamma=0.8", history+`
6 | 6 | 5 # .8; 3 has .8² (1 + .8²) = 1.05
`)
}

func TestHistoryForgotten(t *testing.T) {
	policytest.History(t, lrfu.Entry, "gamma=0.8,history=forget", history+`
6 | 6 | 3 # .64: its stay at step 4 is forgotten; 5 has .8
`)
}
