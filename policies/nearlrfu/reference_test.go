package nearlrfu_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the definition, literally. Every step multiplies every rate by γ and adds 1 to the
// rates of demanded blocks, in 400 bits. Candidates are ranked with a raised rate.
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
		near := big.NewRat(int64(m-i), int64(m+1)) // 1 - (i+1)/(m+1)
		r.ranked[x].Mul(r.ranked[x], exp(near.Mul(near, new(big.Rat).SetFloat64(r.w))))
	}
}

// exp returns e^x by its series, in 120 bits.
func exp(x *big.Rat) *big.Float {
	number := func(n int64) *big.Float { return new(big.Float).SetPrec(120).SetInt64(n) }
	sum, term, factor := number(1), number(1), number(0).SetRat(x)
	for n := int64(1); term.Sign() > 0 && term.MantExp(nil) > -120; n++ {
		term.Mul(term, factor).Quo(term, number(n))
		sum.Add(sum, term)
	}
	return sum
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	order := slices.Clone(outside)
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(r.ranked[x].Cmp(r.ranked[y]), cmp.Compare(r.LastUse(x), r.LastUse(y)), cmp.Compare(x, y))
	})
	return order[:n]
}
