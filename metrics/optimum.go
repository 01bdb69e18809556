package metrics

import (
	"fmt"
	"slices"
	"strings"
)

// bypassPolicy is the optimum of those that need not keep their demand.
const bypassPolicy = "opt-bypass"

// mostNamed is how many rows an error names.
const mostNamed = 5

// counted is a part of a cell that has a count of misses.
type counted struct {
	cellKey
	part part
}

// checkOptimum refuses counts below the optimum that bounds them (SEMANTICS S9), in cells,
// requests and every other part that both have: opt where the demand is kept, opt-bypass
// always. Lossy policies and those without capacity have no such bound, nor have caches that
// prefetch or hold clusters of unequal sizes.
func checkOptimum(rows []Row, cells []*cell) error {
	missed := map[counted]int64{}
	for i := range rows {
		r := &rows[i]
		missed[counted{cellKey{r.Trace, r.Policy, orDash(r.Capacity)}, partOf(r)}] = r.Misses
	}
	sample := map[cellKey]*Row{}
	for _, c := range cells {
		key := cellKey{c.trace, c.policy, orDash(c.sample.Capacity)}
		sample[key] = c.sample
		missed[counted{key, part{}}] = c.total.misses
		for i, id := range c.ids {
			missed[counted{key, part{request: id}}] = c.requests[i].misses
		}
	}
	var below []string
	culprits := map[string]bool{}
	for at, n := range missed {
		for _, optimum := range sample[at.cellKey].bounds(at.part) {
			bound := at
			bound.policy = optimum
			if least, ok := missed[bound]; ok && n < least {
				below = append(below, fmt.Sprintf("  trace %s, %s at %s (%s): %d misses, %s %d", at.trace, at.policy, at.capacity, at.part, n, optimum, least))
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
	for p := range culprits {
		without = append(without, "--where policy!="+p)
	}
	slices.Sort(without)
	return fmt.Errorf("rows below the optimum, which no policy can be that fetches on demand:\n%s\n%sthese rows are false, or those of the optimum are: kvreplay leaderboard verify replays them; leave them out with %s",
		strings.Join(below, "\n"), more, strings.Join(without, " "))
}

// bounds are the policies that miss no more than the row's in a part, whatever it does. In
// a pool they bound what its streams miss together, not each.
func (r *Row) bounds(p part) []string {
	switch {
	case r.Lossy, r.Capacity == nil, r.Prefetch != "", r.Clusters != "":
		return nil
	case r.Pool == "request" && p.layered, r.Pool != "" && p.heads:
		return nil
	case r.Bypasses:
		return []string{bypassPolicy}
	}
	return []string{optPolicy, bypassPolicy}
}
