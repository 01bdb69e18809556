package replay

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// swapIn fetches ahead of row i into the cache itself. Of the ranks K … M-1 of the step
// before, best first, those that are neither pinned nor resident are fetched, as many as
// the size says, while there is room in the cache, or while the block that the policy
// would evict next ranks worse in that step's list (blocks that are not listed rank last):
// that one goes, and does not come back at this step. What is fetched is told as offered:
// last used and inserted at the step before, after what left the demand then.
func (c *cell) swapIn(d *Delta, i int) error {
	g := &c.staging
	g.counts, g.next, g.crowd = prefetched{}, g.next[:0], g.crowd[:0]
	if i == 0 {
		return nil
	}
	candidates := d.Candidates(i - 1)
	for r, x := range candidates {
		g.rank[x] = int32(r) + 1
	}
	free, local := d.unpinned(i - 1) // what has left the local window since is born
	open := true
	for _, x := range candidates {
		if int(x) < free || int(x) >= local || d.isKept(x) || c.state[x] != absent || g.is[x] == ousted {
			continue
		}
		open = open && len(g.next) < g.size
		if open && c.size >= c.capacity {
			var err error
			if open, err = c.oust(g.rank[x]); err != nil {
				return err
			}
		}
		if open {
			c.state[x], g.is[x] = outside, staged
			c.size++
			g.next = append(g.next, x)
		} else {
			g.is[x] = crowded
			g.crowd = append(g.crowd, x)
		}
	}
	for _, x := range candidates {
		g.rank[x] = 0
	}
	for _, x := range c.victims {
		g.is[x] = unstaged
	}
	g.counts.moved = int64(len(g.next))
	slices.Sort(g.next)
	return nil
}

// oust evicts the policy's next victim if it ranks worse than rank.
func (c *cell) oust(rank int32) (bool, error) {
	peeker := c.policy.(policies.Peeker) // Peekable: the table of conflicts has been checked
	x, ok := peeker.Peek()
	if ok && (uint32(x) >= uint32(len(c.state)) || c.state[x] != outside) {
		return false, c.illegalVictim(x)
	}
	if !ok || c.staging.rank[x] != 0 && c.staging.rank[x] < rank {
		return false, nil
	}
	n := len(c.victims)
	if c.victims = c.policy.Evict(1, c.victims); len(c.victims) != n+1 || c.victims[n] != x {
		return false, fmt.Errorf("policy names block %d as its next victim and evicts %v", x, c.victims[n:])
	}
	c.lose(x)
	c.state[x], c.staging.is[x] = absent, ousted
	c.size--
	return true, nil
}

// offer merges what was swapped in with the step's births.
func (c *cell) offer(born []int32) []int32 {
	c.offered = mergeSorted(c.offered[:0], c.staging.next, born)
	return c.offered
}

// useSwapped counts what a step finds of what was swapped in, and what it misses of what
// was named and not fetched.
func (c *cell) useSwapped() {
	g := &c.staging
	for _, x := range c.hit {
		if g.is[x] == staged {
			g.is[x] = unstaged
			g.counts.useful++
		}
	}
	for _, x := range c.miss {
		if g.is[x] == crowded {
			g.counts.late++
		}
	}
	for _, x := range g.crowd {
		g.is[x] = unstaged
	}
}

// lose counts a victim that was swapped in for nothing.
func (c *cell) lose(x int32) {
	if c.staging.is[x] == staged {
		c.staging.is[x] = unstaged
		c.staging.counts.useless++
	}
}
