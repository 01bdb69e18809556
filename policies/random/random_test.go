package random_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/random"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, random.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, random.Entry, "", newReference) }

// If one block is outside the demand, it is the victim.
func TestHistory(t *testing.T) {
	policytest.History(t, random.Entry, "", `
capacity 1
1 | 1 |
2 | 2 | 1
1 | 1 | 2
`)
}

// Every block is drawn equally often: chi-squared with 15 degrees of freedom stays below its 99.9 %
// quantile.
func TestUniform(t *testing.T) {
	const blocks, draws = 16, 16000
	var p random.Policy
	all := make([]int32, blocks)
	for i := range all {
		all[i] = int32(i)
	}
	var count [blocks]float64
	for seed := range uint64(draws / 4) {
		fatal.If(t, p.Reset(&policies.Scope{Blocks: blocks, Seed: seed}))
		p.Update(&policies.Step{Offered: all})
		for _, x := range p.Evict(4, nil) {
			count[x]++
		}
	}
	chi := 0.0
	for _, n := range count {
		chi += (n - draws/blocks) * (n - draws/blocks) / (draws / blocks)
	}
	if chi > 37.7 {
		t.Errorf("chi-squared is %.1f: %v", chi, count)
	}
}
