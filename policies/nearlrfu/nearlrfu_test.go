package nearlrfu_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/nearlrfu"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference(gamma, w float64, forget bool) func() policytest.Reference {
	return func() policytest.Reference { return &reference{gamma: gamma, w: w, forget: forget} }
}

func TestConformance(t *testing.T) {
	policytest.Run(t, nearlrfu.Entry, "", newReference(0.97, 2, false))
}

func TestConformanceOfOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the default options are checked")
	}
	for text, newReference := range map[string]func() policytest.Reference{
		"gamma=0.9,w=0":                  newReference(0.9, 0, false),
		"gamma=0.9,w=0.5,history=forget": newReference(0.9, 0.5, true),
		"gamma=0.9,w=20":                 newReference(0.9, 20, false),
	} {
		t.Run(text, func(t *testing.T) { policytest.Run(t, nearlrfu.Entry, text, newReference) })
	}
}

func FuzzConformance(f *testing.F) {
	policytest.Fuzz(f, nearlrfu.Entry, "", newReference(0.97, 2, false))
}

func TestHistory(t *testing.T) {
	policytest.History(t, nearlrfu.Entry, "gamma=0.8,w=2", `
capacity 2
topk 1
1     | 1 |
2     | 2 |
3 1   | 3 | 2 # .8; 1, the only candidate, has .64 e^(2·1/2) = 1.74
4     | 4 | 1 # .51; 3 has .8
5 3 4 | 5 | 4 # .8 e^(2·1/3) = 1.56; 3 has .64 e^(2·2/3) = 2.43
6     | 6 | 3 # .51; 5 has .8
`)
}
