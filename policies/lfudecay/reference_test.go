package lfudecay_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the rule, literally: every demanded step adds 2^⌊t/H⌋ to an integer of any length.
type reference struct {
	policytest.Ledger
	halfLife int
	windows  int
	sum      map[int32]*big.Int
}

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.windows, r.sum = sc.Windows, map[int32]*big.Int{}
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	for _, x := range slices.Concat(s.Births, s.Misses) {
		r.sum[x] = new(big.Int)
	}
	exponent := floorDiv(int(s.T), r.halfLife) - floorDiv(-r.windows, r.halfLife) // all times the same power
	weight := new(big.Int).Lsh(big.NewInt(1), uint(exponent))
	for _, x := range s.Demand {
		r.sum[x].Add(r.sum[x], weight)
	}
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	order := slices.Clone(outside)
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(r.sum[x].Cmp(r.sum[y]), cmp.Compare(r.LastUse(x), r.LastUse(y)), cmp.Compare(x, y))
	})
	return order[:n]
}
