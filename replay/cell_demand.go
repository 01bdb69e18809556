package replay

import (
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// sift parts what enters the demand of row i into hits and misses, and finds what left it.
func (c *cell) sift(d *Delta, i int) {
	s := &c.step
	s.Exit = d.Exit.Row(i)
	if c.needs != 0 {
		c.columns(d, i)
	}
	switch {
	case c.emptied:
		s.Exit, s.ExitNext = nil, nil
		if c.onlyBirths(s.Members, d.Born.Row(i)) {
			c.hit, c.miss, c.unmarked = c.hit[:0], append(c.miss[:0], s.Members...), true
		} else {
			c.classify(s.Members)
		}
	case len(c.passed) == 0:
		c.classify(d.Enter.Row(i))
		for _, x := range s.Exit {
			c.state[x] = outside
		}
	case d.hasMembers && 8*len(c.passed) > s.Demand:
		c.leave(s)
		c.reclassify(d.Members.Row(i))
	default:
		c.classify(d.Enter.Row(i))
		c.leave(s)
		c.returnPassed()
	}
	c.passed = c.passed[:0]
	s.Hit, s.Miss = c.hit, c.miss
}

// onlyBirths reports whether births are all that is resident and none is demanded:
// every member is then a miss without a look at its state.
func (c *cell) onlyBirths(members, born []int32) bool {
	return c.size == len(born) && (len(born) == 0 || len(members) == 0 || members[len(members)-1] < born[0])
}

// classify splits what enters the demand into hits and misses, against the residents
// at the step's start.
func (c *cell) classify(enter []int32) {
	n := len(enter)
	c.hit, c.miss = slices.Grow(c.hit[:0], n+1)[:n+1], slices.Grow(c.miss[:0], n+1)[:n+1]
	hit, miss, state := c.hit, c.miss, c.state
	h, m := 0, 0
	for _, x := range enter { // both are written, one is kept: no branch to mispredict
		hit[h], miss[m] = x, x
		was := int(state[x])
		h += was
		m += 1 - was
		state[x] = demanded
	}
	c.hit, c.miss = hit[:h], miss[:m]
}

// reclassify parts all of D_t, where much of what it demands was kept out a step ago.
func (c *cell) reclassify(members []int32) {
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

// leave handles what left the demand, where blocks were kept out a step ago: these are
// gone. Which they are is as good as random: every block is written, and counted where it
// belongs.
func (c *cell) leave(s *policies.Step) {
	state, left := c.state, s.Exit
	c.exit = slices.Grow(c.exit[:0], len(left)+1)[:len(left)+1]
	exit, n := c.exit, 0
	if next := s.ExitNext; next != nil {
		c.exitNext = slices.Grow(c.exitNext[:0], len(left)+1)[:len(left)+1]
		nexts, m := c.exitNext, 0
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

// returnPassed adds to the misses what was kept out a step ago and is demanded still. What
// left is absent by now.
func (c *cell) returnPassed() {
	state, again, n := c.state, c.passed, 0
	for _, x := range c.passed {
		out := isKeptOut(state[x])
		again[n] = x
		n += int(out)
		state[x] -= (keptOut - demanded) * out
	}
	if again = again[:n]; n > 0 {
		slices.Sort(again)
		c.merged = mergeSorted(c.merged[:0], c.miss, again)
		c.miss, c.merged = c.merged, c.miss
	}
}

// isKeptOut is 1 for keptOut and 0 for every other state.
func isKeptOut(state uint8) uint8 { return state & (state >> 1) & 1 }

func mergeSorted(dst, a, b []int32) []int32 {
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			dst, a = append(dst, a[0]), a[1:]
		} else {
			dst, b = append(dst, b[0]), b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

// columns fills what the policy asked for.
func (c *cell) columns(d *Delta, i int) {
	s := &c.step
	if c.needs&policies.NeedCandidates != 0 {
		s.Candidates = d.Candidates(i)
	}
	if c.needs&policies.NeedDemand != 0 {
		s.Members = d.Members.Row(i)
	}
	if c.needs&policies.NeedPicked != 0 {
		s.Picked = d.picked(i)
	}
	if c.needs&policies.NeedScores != 0 {
		s.List, s.Scores = d.scored(i)
	}
	if c.needs&policies.NeedNext == 0 {
		return
	}
	s.OfferedNext = d.BornNext[d.Born.ends[i]:d.Born.ends[i+1]]
	s.ExitNext = d.ExitNext[d.Exit.ends[i]:d.Exit.ends[i+1]]
	if i+1 < d.Rows {
		s.Leaving = d.Exit.Row(i + 1)
		s.LeavingNext = d.ExitNext[d.Exit.ends[i+1]:d.Exit.ends[i+2]]
	} else {
		s.Leaving, s.LeavingNext = nil, nil
	}
}
