package cache

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
)

// split finds the hits and misses of row i, and the resident blocks that left the demand.
func (c *Cell) split(v demand.View, i int) {
	s := &c.step
	s.Exit = c.change.Exit
	if c.needs != 0 {
		c.columns(v, i)
	}
	if c.tracked {
		c.stream = i % len(c.gone)
		c.passed, c.gone[c.stream] = c.gone[c.stream], c.passed
	}
	c.entered = !c.emptied && len(c.passed) == 0
	switch {
	case c.emptied:
		s.Exit, s.ExitNext = nil, nil
		if c.onlyBirths(s.Members, c.arrived) {
			c.hit, c.miss, c.unmarked = c.hit[:0], append(c.miss[:0], s.Members...), true
		} else {
			c.classify(s.Members)
		}
	case c.entered:
		c.classify(c.change.Enter)
		for _, x := range s.Exit {
			c.state[x] = outside
		}
	case 8*len(c.passed) > s.Demand && v.Size().HasMembers && !c.tracked:
		c.leave(s)
		c.reclassify(v.Members(i))
	default:
		c.classify(c.change.Enter)
		c.leave(s)
		c.returnPassed()
	}
	c.passed = c.passed[:0]
	s.Hit, s.Miss = c.hit, c.miss
}

// onlyBirths reports whether births are the only resident blocks and none is demanded. Every member
// of the demand is then a miss.
func (c *Cell) onlyBirths(members, born []int32) bool {
	return c.size == len(born) && (len(born) == 0 || len(members) == 0 || members[len(members)-1] < born[0])
}

// classify splits the blocks that enter the demand into hits and misses. Each of them is absent or
// outside.
func (c *Cell) classify(enter []int32) {
	n := len(enter)
	c.hit, c.miss = slices.Grow(c.hit[:0], n+1)[:n+1], slices.Grow(c.miss[:0], n+1)[:n+1]
	hit, miss, state := c.hit, c.miss, c.state
	h, m := 0, 0
	for _, x := range enter { // writes x to both lists and counts it in one, without a branch
		hit[h], miss[m] = x, x
		was := int(state[x])
		h += was
		m += 1 - was
		state[x] = demanded
	}
	c.hit, c.miss = hit[:h], miss[:m]
}

// reclassify splits all of D_t. It is faster than classify if many blocks were kept out a step ago.
func (c *Cell) reclassify(members []int32) {
	n := len(members)
	c.hit, c.miss = slices.Grow(c.hit[:0], n+1)[:n+1], slices.Grow(c.miss[:0], n+1)[:n+1]
	hit, miss, state := c.hit, c.miss, c.state
	h, m := 0, 0
	for _, x := range members {
		hit[h], miss[m] = x, x
		was := state[x]
		h += int(was & 1 &^ (was >> 1)) // outside
		m += 1 - int((was^(was>>1))&1)  // absent or keptOut
		state[x] = demanded
	}
	c.hit, c.miss = hit[:h], miss[:m]
}

// leave updates the blocks that left the demand, if some blocks were kept out a step ago. A block
// that was kept out becomes absent and is removed from s.Exit. To avoid mispredicted branches, leave
// writes every block and counts only the others.
func (c *Cell) leave(s *policies.Step) {
	state, left := c.state, s.Exit
	c.left = slices.Grow(c.left[:0], len(left)+1)[:len(left)+1]
	exit, n := c.left, 0
	if next := s.ExitNext; next != nil {
		c.leftNext = slices.Grow(c.leftNext[:0], len(left)+1)[:len(left)+1]
		nexts, m := c.leftNext, 0
		for j, x := range left { // before states change
			nexts[m] = next[j]
			m += 1 - int(isKeptOut(state[x]))
		}
		s.ExitNext = nexts[:m]
	}
	for _, x := range left {
		out := isKeptOut(state[x])
		exit[n] = x
		n += 1 - int(out)
		state[x] = outside - out // or absent
	}
	s.Exit = exit[:n]
}

// returnPassed adds to the misses the blocks that were kept out a step ago and are still demanded.
// leave has made absent those that left the demand.
func (c *Cell) returnPassed() {
	state, again, n := c.state, c.passed, 0
	for _, x := range c.passed {
		out := isKeptOut(state[x])
		again[n] = x
		n += int(out)
		state[x] -= (keptOut - demanded) * out
	}
	switch again = again[:n]; {
	case n == 0:
	case slices.IsSorted(again):
		c.miss, c.merging = appendUnion(c.merging[:0], c.miss, again), c.miss
	default:
		c.miss = c.sorter.Sort(append(c.miss, again...))
	}
}

// appendUnion appends the members of two ascending lists to dst, in ascending order. No block is in
// both. The loop has no branch that depends on a block.
func appendUnion(dst, a, b []int32) []int32 {
	from := len(dst)
	dst = slices.Grow(dst, len(a)+len(b))[:from+len(a)+len(b)]
	out, i, j := dst[from:], 0, 0
	for i < len(a) && j < len(b) {
		x, y := a[i], b[j]
		out[i+j] = min(x, y)
		less := int(uint32(x-y) >> 31)
		i, j = i+less, j+1-less
	}
	copy(out[i+j:], a[i:])
	copy(out[i+j:], b[j:])
	return dst
}

// isKeptOut returns 1 for keptOut and 0 for every other state.
func isKeptOut(state uint8) uint8 { return state & (state >> 1) & 1 }

// columns fills the fields of the step that the policy needs.
func (c *Cell) columns(v demand.View, i int) {
	s := &c.step
	if c.needs&policies.NeedCandidates != 0 || c.needs&policies.WantCandidates != 0 && c.ranks {
		s.Candidates = v.Candidates(i)
	}
	if c.needs&policies.NeedDemand != 0 {
		s.Members = v.Members(i)
	}
	if c.needs&policies.NeedPicked != 0 {
		for len(c.ones) < len(s.Members) {
			c.ones = append(c.ones, 1)
		}
		if s.Picked = c.ones[:len(s.Members)]; c.picked {
			s.Picked = v.Picked(i)
		}
	}
	if c.needs&policies.NeedScores != 0 {
		s.List, s.Scores = v.Scored(i)
	}
	if c.needs&policies.NeedNext == 0 {
		return
	}
	s.ExitNext, s.OfferedNext = c.change.ExitNext, c.change.BornNext
	if s.Leaving, s.LeavingNext = nil, nil; i+1 < c.scope.Steps && !c.followed {
		v.Change(i+1, &c.following)
		s.Leaving, s.LeavingNext = c.following.Exit, c.following.ExitNext
	}
}
