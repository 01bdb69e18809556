package board

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// bypassPolicy is the optimum of policies that may bypass.
const bypassPolicy = "opt-bypass"

// mostNamed is the number of rows that an error names.
const mostNamed = 5

// counted is a part of a cell that has a count of misses.
type counted struct {
	cellKey
	part result.Part
}

// checkOptimum rejects counts below the optimum that bounds them (SEMANTICS S9). It compares cells,
// requests and every other part that both have. opt bounds policies that keep their demand, and
// opt-bypass bounds all. Some rows have no such bound: lossy policies, policies without capacity,
// and the settings with the tag "unbound".
func checkOptimum(rows []*result.Row, cells []*cell) error {
	least := map[counted]int64{}
	for at, n := range missCounts(rows, cells) {
		if at.policy == OptPolicy || at.policy == bypassPolicy {
			least[at] = n
		}
	}
	sample := map[cellKey]*result.Row{}
	for _, c := range cells {
		sample[c.key()] = c.sample
	}
	var below []string
	culprits := map[string]bool{}
	for at, n := range missCounts(rows, cells) {
		for _, optimum := range optimaOf(sample[at.cellKey], at.part) {
			bound := at
			bound.policy = optimum
			if m, ok := least[bound]; ok && n < m {
				below = append(below, fmt.Sprintf("  trace %s, %s at %s (%s): %d misses, %s %d", at.trace, at.policy, at.capacity, at.part, n, optimum, m))
				culprits[at.policy] = true
				break
			}
		}
	}
	if below == nil {
		return nil
	}
	slices.Sort(below)
	more := ""
	if n := len(below) - mostNamed; n > 0 {
		below, more = below[:mostNamed], fmt.Sprintf("  and %d more\n", n)
	}
	var without []string
	for _, p := range slices.Sorted(maps.Keys(culprits)) {
		without = append(without, "--where policy!="+p)
	}
	return fmt.Errorf("rows have fewer misses than the optimum, which only prefetching allows:\n%s\n%sthey are wrong, or the optimum's are: replay them with kvreplay leaderboard verify, or leave them out with %s",
		strings.Join(below, "\n"), more, strings.Join(without, " "))
}

// missCounts yields the misses of every part that has a row, of cells and of their requests. The
// count of a row without layer is that of its cell or request.
func missCounts(rows []*result.Row, cells []*cell) iter.Seq2[counted, int64] {
	return func(yield func(counted, int64) bool) {
		for _, r := range rows {
			if r.LayerID != nil && !yield(counted{cellKey{r.Trace, r.Policy, result.OrDash(r.Capacity)}, result.PartOf(r)}, r.Misses) {
				return
			}
		}
		for _, c := range cells {
			if !yield(counted{c.key(), result.Part{}}, c.total.misses) {
				return
			}
			for i, id := range c.ids {
				if !yield(counted{c.key(), result.Part{Request: id}}, c.requests[i].misses) {
					return
				}
			}
		}
	}
}

// key returns the cell's name. The capacity is a dash for policies without one.
func (c *cell) key() cellKey { return cellKey{c.trace, c.policy, result.OrDash(c.sample.Capacity)} }

// optimaOf returns the policies that never miss more than the row's in a part. In a pool they bound
// the total misses of its streams, not those of each.
func optimaOf(r *result.Row, p result.Part) []string {
	switch {
	case r.Lossy, r.Capacity == nil, r.Unbound() != "":
		return nil
	case r.Pool == "request" && p.Layered, r.Pool != "" && p.Heads:
		return nil
	case r.Bypasses:
		return []string{bypassPolicy}
	}
	return []string{OptPolicy, bypassPolicy}
}
