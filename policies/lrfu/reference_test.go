package lrfu_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the definition, literally. Every step multiplies every rate by γ and adds 1 to the
// rates of demanded blocks, in 400 bits.
type reference struct {
	policytest.Ledger
	gamma  float64
	forget bool
	rates  []*big.Float
}

const bits = 400

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.rates = make([]*big.Float, sc.Blocks)
	for x := range r.rates {
		r.rates[x] = new(big.Float).SetPrec(bits)
	}
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	if r.forget {
		for _, x := range s.Misses {
			r.rates[x].SetInt64(0)
		}
	}
	for _, rate := range r.rates {
		rate.Mul(rate, big.NewFloat(r.gamma))
	}
	for _, x := range s.Demand {
		r.rates[x].Add(r.rates[x], big.NewFloat(1))
	}
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	order := slices.Clone(outside)
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(r.rates[x].Cmp(r.rates[y]), cmp.Compare(r.LastUse(x), r.LastUse(y)), cmp.Compare(x, y))
	})
	return order[:n]
}
