package board

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// bypassPolicy is the optimum of policies that may bypass.
const bypassPolicy = "opt-bypass"

// mostNamed is the number of rows that an error names.
const mostNamed = 5

// checkOptimum rejects counts below the optimum that bounds them (SEMANTICS S9). It compares cells,
// requests and every other part that both have. opt bounds policies that keep their demand, and
// opt-bypass bounds all. Some rows have no such bound: lossy policies, policies without capacity,
// and the settings with the tag "unbound".
func checkOptimum(cells []*cell) error {
	least := map[cellKey]*leastCounts{}
	for _, c := range cells {
		if c.policy == OptPolicy || c.policy == bypassPolicy {
			least[c.key()] = &leastCounts{cell: c}
		}
	}
	var below []string
	culprits := map[string]bool{}
	for _, c := range cells {
		key := c.key()
		optima := slice.Map([]string{OptPolicy, bypassPolicy}, func(policy string) *leastCounts {
			return least[cellKey{key.trace, policy, key.capacity}]
		})
		layer, stream := result.Part{Layered: true}, result.Part{Layered: true, Heads: true}
		whole, byLayer, byStream := optimaOf(c.sample, result.Part{}), optimaOf(c.sample, layer), optimaOf(c.sample, stream)
		for i, n := range c.missCounts() {
			bounds := whole
			switch {
			case n.part.Heads:
				bounds = byStream
			case n.part.Layered:
				bounds = byLayer
			}
			for k, optimum := range bounds {
				if m, ok := optima[k].at(i, n.part); optimum && ok && n.misses < m {
					below = append(below, fmt.Sprintf("  trace %s, %s at %s (%s): %d misses, %s %d", c.trace, c.policy, key.capacity, n.part, n.misses, optima[k].policy, m))
					culprits[c.policy] = true
					break
				}
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
	without := slice.Map(slices.Sorted(maps.Keys(culprits)), func(p string) string { return "--where policy!=" + p })
	return fmt.Errorf("rows have fewer misses than the optimum, which bounds them:\n%s\n%sthey are wrong, or the optimum's are: replay them with kvreplay leaderboard verify, or leave them out with %s",
		strings.Join(below, "\n"), more, strings.Join(without, " "))
}

// missCounts yields the misses of every part that has a row, of the cell and of its requests, with
// their positions. The count of a row without layer is that of its cell or request.
func (c *cell) missCounts() iter.Seq2[int, partCount] {
	return func(yield func(int, partCount) bool) {
		if !yield(0, partCount{misses: c.total.misses}) {
			return
		}
		for i := range c.requests {
			if !yield(i, partCount{part: result.Part{Request: c.work.ids[i]}, misses: c.requests[i].misses}) {
				return
			}
		}
		for i, n := range c.parts {
			if !yield(i, n) {
				return
			}
		}
	}
}

// leastCounts finds the misses of an optimum's parts.
type leastCounts struct {
	*cell
	by map[result.Part]int64 // made if the parts of another cell have other positions
}

// at returns the misses of a part, which another cell has at a position. ok is false if the optimum
// lacks the part.
func (l *leastCounts) at(i int, p result.Part) (n int64, ok bool) {
	switch {
	case l == nil:
		return 0, false
	case p.Layered && i < len(l.parts) && l.parts[i].part == p:
		return l.parts[i].misses, true
	case !p.Layered && p.Request != "" && i < len(l.requests) && l.work.ids[i] == p.Request:
		return l.requests[i].misses, true
	}
	if l.by == nil {
		l.by = map[result.Part]int64{}
		for _, n := range l.missCounts() {
			l.by[n.part] = n.misses
		}
	}
	n, ok = l.by[p]
	return n, ok
}

// key returns the cell's name. The capacity is a dash for policies without one.
func (c *cell) key() cellKey { return cellKey{c.trace, c.policy, result.OrDash(c.sample.Capacity)} }

// optimaOf reports whether opt and opt-bypass never miss more than the row's policy in a part. In a
// pool they bound the total misses of its streams, not those of each.
func optimaOf(r *result.Row, p result.Part) (bounds [2]bool) {
	switch {
	case r.Lossy, r.Capacity == nil, r.Unbound() != "":
		return bounds
	case r.Pool == "request" && p.Layered, r.Pool != "" && p.Heads:
		return bounds
	case r.Bypasses:
		return [2]bool{false, true}
	}
	return [2]bool{true, true}
}
