package scoreewma

import (
	"cmp"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// listing is a step that listed a block.
type listing struct {
	t     int32
	score float64
}

// reference keeps every score of every block and computes each mean from all of them at each use.
type reference struct {
	policytest.Ledger
	decay  float64
	now    int32
	scores map[int32][]listing
}

func (r *reference) Reset(sc policies.Scope) {
	r.Ledger.Reset(sc)
	r.scores = map[int32][]listing{}
}

func (r *reference) Step(s *policytest.Step) {
	r.Ledger.Step(s)
	r.now = s.T
	for i, x := range s.List {
		r.scores[x] = append(r.scores[x], listing{s.T, float64(s.Scores[i])})
	}
}

func (r *reference) decayed(mean float64, steps int32) float64 {
	factor := 1.0
	for range steps {
		factor *= r.decay
	}
	return float64(factor * mean)
}

func (r *reference) mean(x int32) float64 {
	mean, at := 0.0, r.now
	for _, l := range r.scores[x] {
		mean = r.decayed(mean, l.t-at) + float64((1-r.decay)*l.score)
		at = l.t
	}
	return r.decayed(mean, r.now-at)
}

func (r *reference) Victims(n int, outside []int32) []int32 {
	order := slices.Clone(outside)
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(r.mean(x), r.mean(y)), cmp.Compare(r.LastUse(x), r.LastUse(y)), cmp.Compare(x, y))
	})
	return order[:n]
}
