package board

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Comparisons compares every policy of the rows with one. It is a pure function of rows.
type Comparisons struct {
	// Version is ComparisonVersion.
	Version int `json:"comparison_version"`
	// B is the policy that the others are compared with.
	B string `json:"b"`
	// Resamples and Seed are those of the bootstrap intervals.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// Incomplete lists the requested cells without rows. It is null if all have rows.
	Incomplete *result.Incomplete `json:"incomplete"`
	// Groups are the warmed rows and the cold ones, as in Comparison.
	Groups []ComparedPolicies `json:"groups"`
}

// ComparedPolicies compares policies over rows that may be pooled.
type ComparedPolicies struct {
	// Start is "warmed" or "cold".
	Start string `json:"start"`
	// Labels are the conditions that limit the figures. Bounds are marked as such instead.
	// A label of some policies states their share.
	Labels result.Labels `json:"labels"`
	// Policies are sorted by their ratio, bounds last.
	Policies []ComparedPolicy `json:"policies"`
	// Notes say which policies were left out, and why.
	Notes []string `json:"notes"`
}

// ComparedPolicy is policy A against B over all cells that both have.
type ComparedPolicy struct {
	// A is the policy. Bound is true for an offline one.
	A     string `json:"a"`
	Bound bool   `json:"bound"`
	// The contest is pooled. Its Better is by PHolm.
	Contest
	// PHolm is P corrected for the number of policies that are not bounds (Holm). It is null for
	// bounds and without P.
	PHolm *float64 `json:"p_holm"`
}

// all is Starts.CompareAll.
func (c *comparer) all(b string) (*Comparisons, error) {
	o, first := c.options, c.samples
	switch {
	case first[b] == nil:
		return nil, fmt.Errorf("compare all with %s: %w", b, &UnknownPolicy{b, c.known()})
	case first[b].Lossy:
		return nil, fmt.Errorf("compare all with %s: it is lossy and has no misses: kvreplay leaderboard compares recall", b)
	}
	groups := map[string]*ComparedPolicies{warmedStart: {Start: warmedStart}, result.ColdStart: {Start: result.ColdStart}}
	tests := map[string]*testsOfAll{warmedStart: {}, result.ColdStart: {}}
	var left, lossy []string
	for _, a := range c.known() {
		switch {
		case a == b:
			continue
		case first[a].Lossy:
			lossy = append(lossy, a)
			continue
		}
		meetings, err := c.meetings(a, b)
		if err != nil {
			return nil, err
		}
		found := false
		for _, m := range meetings {
			if len(m.pairs) > 0 {
				found = true
				p := ComparedPolicy{A: a, Bound: first[a].Offline, Contest: figuresOf(m.grid, m.pairs)}
				p.Labels = m.labels()
				groups[m.start].Policies = append(groups[m.start].Policies, p)
				tests[m.start].add(&p.Contest, m.pairs)
			}
		}
		if !found {
			left = append(left, a)
		}
	}
	c.sampler.makeIntervals()
	for start, of := range tests {
		for i, p := range of.ps(c.sampler.seed) {
			groups[start].Policies[i].P = p
		}
	}
	all := &Comparisons{Version: ComparisonVersion, B: b, Resamples: c.sampler.count, Seed: c.sampler.seed, Incomplete: o.Incomplete}
	for _, start := range []string{warmedStart, result.ColdStart} {
		if g := groups[start]; len(g.Policies) > 0 {
			g.finish(b, left, lossy)
			g.Labels = g.shared(first[b].Offline)
			g.Notes = append(o.Incomplete.Notes(), g.Notes...)
			all.Groups = append(all.Groups, *g)
		}
	}
	if len(all.Groups) == 0 {
		return nil, fmt.Errorf("compare all with %s: %w", b, errors.New("no other policy has the same traces and capacities: replay others at these"))
	}
	fillLists(reflect.ValueOf(all).Elem())
	return all, nil
}

// testsOfAll are the permutation tests of policies against one.
type testsOfAll struct {
	count int
	of    []testsOfPlaces
}

// testsOfPlaces are tests over the same places. They share the exchanges.
type testsOfPlaces struct {
	refs    []CellRef
	sides   []sides       // of the first policy
	amounts [][][]float64 // of B and of each policy, by place and request
	at      []int         // of each policy in testsOfAll
}

// add adds the test of a policy. The places are those of the ratio.
func (t *testsOfAll) add(d *Contest, pairs []pair) {
	at := t.count
	t.count++
	pairs = withRatio(pairs)
	cells := sidesOf(pairs)
	if d.Requests == nil || cells == nil {
		return
	}
	refs := slice.Map(pairs, func(p pair) CellRef { return p.at })
	i := slices.IndexFunc(t.of, func(of testsOfPlaces) bool { return slices.Equal(of.refs, refs) })
	if i < 0 {
		i = len(t.of)
		b := slice.Map(cells, func(s sides) []float64 { return s.b })
		t.of = append(t.of, testsOfPlaces{refs: refs, sides: cells, amounts: [][][]float64{b}})
	}
	of := &t.of[i]
	of.amounts, of.at = append(of.amounts, slice.Map(cells, func(s sides) []float64 { return s.a })), append(of.at, at)
}

// ps returns p of each policy, nil without a test.
func (t *testsOfAll) ps(seed uint64) []*float64 {
	ps := make([]*float64, t.count)
	for _, of := range t.of {
		pairs := make([][2]int, len(of.at))
		for i := range pairs {
			pairs[i] = [2]int{1 + i, 0}
		}
		for i, p := range newSwaps(seed, of.sides).ps(of.amounts, pairs, logRatio) {
			ps[of.at[i]] = Number(p)
		}
	}
	return ps
}

// finish corrects the tests, names the better policies and sorts.
func (g *ComparedPolicies) finish(b string, left, lossy []string) {
	g.correct(b)
	slices.SortStableFunc(g.Policies, func(p, q ComparedPolicy) int {
		return cmp.Or(result.CompareBool(p.Bound, q.Bound), cmp.Compare(p.order(), q.order()), strings.Compare(p.A, q.A))
	})
	cells := 0
	for _, p := range g.Policies {
		cells = max(cells, p.Cells)
	}
	if slices.ContainsFunc(g.Policies, func(p ComparedPolicy) bool { return p.Cells < cells }) {
		g.Notes = append(g.Notes, "Ratios over fewer cells are not comparable with the others. Each is over the cells that both policies have")
	}
	if left != nil {
		g.Notes = append(g.Notes, "Not compared, because they share no trace and capacity with "+b+": policies "+strings.Join(left, ", "))
	}
	if lossy != nil {
		g.Notes = append(g.Notes, "Not compared, because they are lossy (kvreplay leaderboard ranks them): policies "+strings.Join(lossy, ", "))
	}
}

// correct applies Holm's method to the policies that are not bounds.
func (g *ComparedPolicies) correct(b string) {
	var at []int
	var ps []float64
	for i, p := range g.Policies {
		if !p.Bound && p.P != nil {
			at, ps = append(at, i), append(ps, *p.P)
		}
	}
	for i := range g.Policies {
		g.Policies[i].Better = nil
	}
	for k, corrected := range holm(ps) {
		p := &g.Policies[at[k]]
		p.PHolm = Number(corrected)
		p.decide(p.A, b, p.PHolm, len(ps))
	}
}

// shared returns the labels of all policies together. Labels of a bound stay with it unless B is a
// bound.
func (g *ComparedPolicies) shared(offline bool) result.Labels {
	of := make([]result.Labels, len(g.Policies))
	for i, p := range g.Policies {
		if of[i] = p.Labels; p.Bound && !offline {
			of[i] = p.Labels.Without(result.Labels{result.LabelOraclePolicy})
		}
	}
	return result.SharedLabels(of, "policies")
}

// order is the ratio, infinite if B alone has no miss. Policies without a ratio come last.
func (p *ComparedPolicy) order() float64 {
	switch {
	case p.Ratio != nil:
		return p.Ratio.Value
	case p.Inverse != nil:
		return math.MaxFloat64
	}
	return math.Inf(1)
}
