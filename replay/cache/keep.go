package cache

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
)

// weigh returns the capacity that blocks take: their number, or their weight if units have unequal
// sizes.
func (c *Cell) weigh(blocks []int32) int {
	if c.weight == nil {
		return len(blocks)
	}
	n := 0
	for _, x := range blocks {
		n += int(c.weight[x])
	}
	return n
}

// chooseOverflow counts the blocks of D_t that exceed the capacity. Unless the policy chooses them,
// chooseOverflow takes the worst ranks first, or the lowest indices without ranks (SEMANTICS S5).
func (c *Cell) chooseOverflow(v demand.View, i int) {
	c.pass = c.pass[:0]
	excess := c.step.Demand - c.capacity
	if c.weight != nil {
		c.demandWeight += c.weigh(c.change.Enter) - c.weigh(c.change.Exit)
		c.keptWeight = c.demandWeight
		excess = c.keptWeight - c.capacity
	}
	c.overflow = max(0, excess)
	if c.overflow == 0 || c.bypasser != nil && c.weight == nil {
		return
	}
	c.pass = c.surplus(v.Ranked(i), excess)
	c.step.Pass = c.pass
	if c.weight != nil {
		c.overflow = len(c.pass)
		c.keptWeight -= c.weigh(c.pass)
	}
}

// surplus chooses members of D_t that weigh at least excess.
func (c *Cell) surplus(list []int32, excess int) []int32 {
	pass := c.pass[:0]
	for at := 0; at < len(list) && excess > 0; at++ {
		x := list[at]
		if c.ranks {
			x = list[len(list)-1-at]
		}
		switch {
		case c.weight != nil: // no unit in the list is pinned
			excess -= int(c.weight[x])
		case c.state[x] == demanded:
			excess--
		default:
			continue
		}
		pass = append(pass, x)
	}
	return pass
}

// equal is slices.Equal, many blocks at a time.
func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for ; len(a) >= 64; a, b = a[64:], b[64:] {
		if *(*[64]int32)(a) != *(*[64]int32)(b) {
			return false
		}
	}
	return slices.Equal(a, b)
}

// keepOut removes the members of D_t from the cache that the engine or the policy has chosen.
func (c *Cell) keepOut() error {
	if c.bypasser != nil {
		c.pass = c.bypasser.Bypass(c.overflow, c.pass[:0])
	}
	if len(c.pass) < c.overflow {
		return fmt.Errorf("policy bypasses %d demanded blocks, but the demand exceeds the capacity by %d", len(c.pass), c.overflow)
	}
	if c.unmarked {
		c.unmarked = false
		if equal(c.pass, c.step.Members) { // as in the step before, no member is kept
			c.size -= c.weigh(c.pass)
			return nil
		}
		c.markMembers()
	}
	out := keptOut
	c.emptied = len(c.pass) == c.step.Demand && c.needs&policies.NeedDemand != 0
	if c.emptied {
		out = absent
	}
	for _, x := range c.pass {
		if uint32(x) >= uint32(len(c.state)) || c.state[x] != demanded {
			return fmt.Errorf("policy bypasses block %d, which is not demanded (or was named twice)", x)
		}
		c.state[x] = out
	}
	c.size -= c.weigh(c.pass)
	if c.emptied {
		c.passed = c.passed[:0]
		return nil
	}
	c.passed = append(c.passed[:0], c.pass...)
	return nil
}

func (c *Cell) markMembers() {
	for _, x := range c.step.Members {
		c.state[x] = demanded
	}
}

// notKept returns the members of D_t that the step did not keep, ascending.
func (c *Cell) notKept() []int32 {
	c.merged = c.sorter.Sort(append(c.merged[:0], c.pass...))
	return c.merged
}

// evict removes victims of the policy until the capacity suffices.
func (c *Cell) evict() error {
	if c.weight != nil {
		return c.evictByWeight()
	}
	need, before := max(0, c.size-c.capacity), len(c.victims)
	c.victims = c.Policy.Evict(need, c.victims)
	if n := len(c.victims) - before; n < need {
		if c.lossy != nil {
			return c.failed("policy named %d victims, expected at least %d (budget %d blocks, %d held)", n, need, c.capacity, c.size)
		}
		return c.failed("policy named %d victims, expected at least %d (capacity %d blocks, %d resident)", n, need, c.capacity, c.size)
	}
	return c.remove(c.victims[before:])
}

// failed returns the error of victims that break the contract. A Failer may know more.
func (c *Cell) failed(format string, args ...any) error {
	reason := fmt.Errorf(format, args...)
	if f, ok := c.Policy.(policies.Failer); ok {
		return f.Failed(reason)
	}
	return reason
}

// evictByWeight requests victims one by one, because units differ in size. If part of D_t was not
// kept, it evicts all blocks outside the demand, even if fewer suffice.
func (c *Cell) evictByWeight() error {
	for asked := false; ; asked = true {
		need := 0
		if outside := c.size > c.keptWeight; c.size > c.capacity || outside && len(c.pass) > 0 {
			need = 1
		} else if asked {
			return nil
		}
		before := len(c.victims)
		c.victims = c.Policy.Evict(need, c.victims)
		if len(c.victims)-before < need {
			return c.failed("policy named no victim, expected one (capacity %d entries, %d resident)", c.capacity, c.size)
		}
		if err := c.remove(c.victims[before:]); err != nil {
			return err
		}
	}
}

// remove checks each victim and removes it from the cache.
func (c *Cell) remove(victims []int32) error {
	state, first := c.state, 0
	if c.lossy != nil { // blocks outside [free, local) are pinned
		state, first = state[:c.lossy.local], c.lossy.free
	}
	if c.tracked {
		return c.removeTracked(victims)
	}
	for _, x := range victims {
		if uint(x) >= uint(len(state)) || int(x) < first || state[x] != outside {
			return c.illegalVictim(x)
		}
		state[x] = absent
	}
	if c.staging.swaps {
		for _, x := range victims {
			c.staging.evicted(x)
		}
	}
	c.size -= c.weigh(victims)
	return nil
}

// removeTracked is remove for a tracked pool. A victim may be in the latest demand of another stream,
// whose next row then finds it kept out.
func (c *Cell) removeTracked(victims []int32) error {
	for _, x := range victims {
		if uint(x) >= uint(len(c.state)) {
			return c.illegalVictim(x)
		}
		switch owner := c.counter.owner(x); {
		case c.state[x] == outside:
			c.state[x] = absent
		case c.state[x] == demanded && owner != c.stream:
			c.state[x] = keptOut
			c.gone[owner] = append(c.gone[owner], x)
		default:
			return c.illegalVictim(x)
		}
	}
	c.size -= len(victims)
	return nil
}

func (c *Cell) illegalVictim(x int32) error {
	why := "is not resident (or was named twice)"
	switch {
	case c.lossy != nil:
		why = "is not held (dropped before, pinned, or named twice)"
	case uint32(x) >= uint32(len(c.state)):
		why = fmt.Sprintf("does not exist, blocks are 0 to %d", len(c.state)-1)
	case c.state[x] == demanded || c.state[x] == keptOut:
		why = "is in the step's demand"
	}
	return c.failed("policy named block %d as a victim, which %s", x, why)
}
