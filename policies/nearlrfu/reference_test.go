package nearlrfu_test

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the definition, literally: every step multiplies every rate by γ and
// adds 1 to those demanded, in 400 bits; candidates are ranked with a raised rate.
type reference struct {
	policytest.Ledger
	gamma, w float64
	forget   bool
	rates    []*big.Float
	ranked   []*big.Float // this step's rates, raised
}

const bits = 400

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.rates, r.ranked = zeros(sc.Blocks), zeros(sc.Blocks)
}

func zeros(n int) []*big.Float {
	list := make([]*big.Float, n)
	for i := range list {
		list[i] = new(big.Float).SetPrec(bits)
	}
	return list
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
	for x, rate := range r.rates {
		r.ranked[x].Set(rate)
	}
	m := len(s.Candidates()) // M - K
	for i, x := range s.Candidates() {
		near := 1 - float64(i+1)/float64(m+1) // the rank less K is i+1
		r.ranked[x].Mul(r.ranked[x], big.NewFloat(math.Exp(r.w*near)))
	}
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	order := slices.Clone(outside)
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(r.ranked[x].Cmp(r.ranked[y]), cmp.Compare(r.LastUse(x), r.LastUse(y)), cmp.Compare(x, y))
	})
	return order[:n]
}
