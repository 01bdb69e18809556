package random_test

import (
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference is the rule, literally: a list that is searched, and draws in integers of any length.
type reference struct {
	list []int32
	pcg  *rand.PCG
}

func (r *reference) Reset(sc policies.Scope) {
	r.list, r.pcg = nil, rand.NewPCG(sc.Seed, 0x72616e646f6d)
}

func (r *reference) Step(s *policytest.Step) {
	for _, x := range s.Before { // residents that are not listed were demanded a step ago
		if !slices.Contains(r.list, x) && !slices.Contains(s.Demand, x) {
			r.list = append(r.list, x)
		}
	}
	r.list = append(r.list, s.Births...)
	for _, x := range s.Demand {
		if at := slices.Index(r.list, x); at >= 0 {
			r.leave(at)
		}
	}
}

func (r *reference) leave(at int) {
	last := len(r.list) - 1
	r.list[at] = r.list[last]
	r.list = r.list[:last]
}

func (r *reference) Victims(n int, _ []int32) (victims []int32) {
	for range n {
		u := new(big.Int).SetUint64(r.pcg.Uint64())
		at := int(u.Mul(u, big.NewInt(int64(len(r.list)))).Rsh(u, 64).Int64())
		victims = append(victims, r.list[at])
		r.leave(at)
	}
	return victims
}
