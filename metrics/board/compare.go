package board

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// ComparisonVersion is the version of Comparison's JSON form. A field is never renamed
// or reused; a change of meaning raises the version.
const ComparisonVersion = 2

// warmedStart is the start of rows that are not cold.
const warmedStart = "warmed"

// Comparison says which of two policies misses less, where, and whether the requests
// at hand tell the two apart. It is a pure function of rows.
type Comparison struct {
	// Version is ComparisonVersion.
	Version int `json:"comparison_version"`
	// A and B are the policies, as rows name them.
	A string `json:"a"`
	B string `json:"b"`
	// Resamples and Seed are those of the bootstrap intervals.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
	// Incomplete says that cells which were asked for have no rows; null if all have.
	Incomplete *result.Incomplete `json:"incomplete"`
	// Groups are the warmed rows and the cold ones, which are never pooled (SEMANTICS S8).
	Groups []ComparedGroup `json:"groups"`
}

// ComparedGroup compares over rows that may be pooled.
type ComparedGroup struct {
	// Start is "warmed" or "cold".
	Start string `json:"start"`
	// Labels are the conditions that limit the figures. Those of some traces only state
	// their share.
	Labels result.Labels `json:"labels"`
	// Cells are the places where both policies ran, by trace and capacity.
	Cells []Contest `json:"cells"`
	// Pooled is over all Cells; null without any.
	Pooled *Contest `json:"pooled"`
	// Unpaired are the places where only one of the two ran.
	Unpaired []CellRef `json:"unpaired"`
	// Notes say what the figures are over, and what the rows warn of.
	Notes []string `json:"notes"`
}

// Contest is A against B over one cell or, pooled, over several.
type Contest struct {
	// CellRef is the place: "peak:window:2" where one of the two has no capacity and
	// the other was given its peak. Empty where pooled.
	CellRef
	// Labels are those of the place; empty where pooled.
	Labels result.Labels `json:"labels"`
	// Cells is the number of cells.
	Cells int `json:"cells"`
	// MissesA and MissesB are blocks, summed over the cells.
	MissesA int64 `json:"misses_a"`
	MissesB int64 `json:"misses_b"`
	// Ratio is A's misses ÷ B's in each cell, geometric mean over the cells where both
	// miss; below 1 A is better. Low and High are of paired resamples of the requests. Null
	// where B alone has no miss (it would be infinite), and where neither has.
	Ratio *Figure `json:"ratio"`
	// Requests and Streams count who missed less, one vote a request or stream; null
	// where rows are pooled over them.
	Requests *Votes `json:"requests"`
	Streams  *Votes `json:"streams"`
	// P is of the paired permutation test over the requests: the chance of a ratio at
	// least as far from 1 if A and B could be exchanged in any request. Null if rows are
	// pooled over requests.
	P *float64 `json:"p"`
	// Better is the policy that misses less, if P is below 0.05; else null.
	Better *string `json:"better"`

	// Inverse is B's misses ÷ A's, 0; only if B alone has no miss, so that there is no Ratio.
	Inverse *Figure `json:"-"`
}

// Compare sets policies a and b side by side over the cells that both have in rows.
// Rows that must not be compared (settings that differ, other work, exact beside
// lossy) are an error that says which; a name without rows is an *UnknownPolicy. Rows of
// tiers below the GPU's cache are left out: their demand is what that one misses.
func Compare(rows []result.Row, a, b string, o Options) (*Comparison, error) {
	c, err := compare(rows, a, b, o)
	if err != nil {
		return nil, err
	}
	return c, c.check()
}

// compare is Compare without the demand that the two policies share a cell.
func compare(rows []result.Row, a, b string, o Options) (*Comparison, error) {
	c := &Comparison{Version: ComparisonVersion, A: a, B: b, Resamples: cmp.Or(o.Resamples, DefaultResamples), Seed: o.Seed, Incomplete: o.Incomplete}
	top, tiers := splitTiers(result.Pointers(rows))
	both, err := c.rowsOfBoth(top)
	if err != nil {
		return nil, fmt.Errorf("compare %s with %s: %w", a, b, err)
	}
	cold, warmed := result.Split(both, func(r *result.Row) bool { return r.Warmup == result.ColdStart })
	for _, part := range []struct {
		start string
		rows  []*result.Row
	}{{warmedStart, warmed}, {result.ColdStart, cold}} {
		if len(part.rows) == 0 {
			continue
		}
		g, err := c.group(part.rows)
		if err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", a, b, err)
		}
		g.Start = part.start
		g.Notes = append(o.Incomplete.Notes(), g.Notes...)
		if len(tiers) > 0 {
			g.Notes = append(g.Notes, "the GPU's caches are compared; rows of the tiers below are left out, whose demand is what the cache above misses")
		}
		c.Groups = append(c.Groups, g)
	}
	fillLists(reflect.ValueOf(c).Elem())
	return c, nil
}

// UnknownPolicy is a name that no row has.
type UnknownPolicy struct {
	Name  string
	Known []string // the policies of the rows, sorted
}

func (e *UnknownPolicy) Error() string { return fmt.Sprintf("no rows of policy %q", e.Name) }

// rowsOfBoth keeps the rows of the two policies, which must be of one kind.
func (c *Comparison) rowsOfBoth(rows []*result.Row) ([]*result.Row, error) {
	if c.A == c.B {
		return nil, errors.New("that is one policy; name two")
	}
	a, _ := result.Split(rows, func(r *result.Row) bool { return r.Policy == c.A })
	b, _ := result.Split(rows, func(r *result.Row) bool { return r.Policy == c.B })
	switch {
	case len(a) == 0:
		return nil, &UnknownPolicy{c.A, result.PolicyNames(rows)}
	case len(b) == 0:
		return nil, &UnknownPolicy{c.B, result.PolicyNames(rows)}
	case a[0].Lossy && b[0].Lossy:
		return nil, fmt.Errorf("%s and %s are lossy, which miss nothing and lose: kvreplay leaderboard compares their recall", c.A, c.B)
	case a[0].Lossy != b[0].Lossy:
		return nil, fmt.Errorf("%s is %s and %s is %s: exact and lossy policies are never compared by their misses", c.A, kindOf(a[0].Lossy), c.B, kindOf(b[0].Lossy))
	}
	return slices.Concat(a, b), nil
}

// check refuses a comparison over nothing.
func (c *Comparison) check() error {
	if slices.ContainsFunc(c.Groups, func(g ComparedGroup) bool { return g.Pooled != nil }) {
		return nil
	}
	var ran []CellRef
	for _, g := range c.Groups {
		ran = append(ran, g.Unpaired...)
	}
	if len(c.Groups) > 1 {
		return fmt.Errorf("compare %s with %s: no trace and capacity at which both ran with warmed caches or both from cold starts (warmup=cold), which are never compared: replay both with the same --warmup", c.A, c.B)
	}
	return fmt.Errorf("compare %s with %s: no trace and capacity at which both ran, only %s: replay both at the same capacities; a policy without capacity is compared with rows at its peak (replay it with lru or opt in one run)", c.A, c.B, refsText(ran))
}
