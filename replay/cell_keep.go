package replay

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// overflow is how many of D_t exceed the capacity, and chooses which they are, unless the
// policy does.
func (c *cell) overflow(d *Delta, i int, ranks bool) int {
	n := max(0, c.step.Demand-c.capacity)
	if c.weight != nil {
		n = c.surplusWeighed(d, i, ranks)
	} else if n > 0 && c.bypasser == nil {
		c.surplus(d.ranked(i), n, ranks)
	} else {
		return n
	}
	if n > 0 {
		c.step.Pass = c.pass
	}
	return n
}

// surplus chooses which members of D_t are not kept: worst rank first, without ranks
// lowest index first (SEMANTICS S5).
func (c *cell) surplus(list []int32, n int, ranks bool) {
	c.pass = c.pass[:0]
	take := func(x int32) {
		if len(c.pass) < n && c.state[x] == demanded {
			c.pass = append(c.pass, x)
		}
	}
	if !ranks {
		for _, x := range list {
			take(x)
		}
		return
	}
	for i := len(list) - 1; i >= 0; i-- {
		take(list[i])
	}
}

// keepOut takes the engine's or the policy's choice of members of D_t out of the cache.
func (c *cell) keepOut(overflow int) error {
	if c.bypasser != nil {
		c.pass = c.bypasser.Bypass(overflow, c.pass[:0])
	} else if overflow == 0 {
		c.keepAll()
		return nil
	}
	if len(c.pass) < overflow {
		return fmt.Errorf("policy keeps %d demanded blocks out, the demand exceeds the capacity by %d", len(c.pass), overflow)
	}
	if c.unmarked {
		c.unmarked = false
		if slices.Equal(c.pass, c.step.Members) { // again nothing is kept
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
			return fmt.Errorf("policy keeps block %d out, which is not in the demand (or named twice)", x)
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

// keepAll ends what began when nothing of a step's demand was kept: all of D_t is.
func (c *cell) keepAll() {
	if c.unmarked {
		c.markMembers()
	}
	c.emptied, c.unmarked = false, false
}

// markMembers marks D_t as demanded.
func (c *cell) markMembers() {
	for _, x := range c.step.Members {
		c.state[x] = demanded
	}
}

// notKept are the members of D_t that left with the step, ascending.
func (c *cell) notKept() []int32 {
	kept := c.pass[:c.leftOut]
	c.sorted = append(c.sorted[:0], kept...)
	slices.Sort(c.sorted)
	return c.sorted
}

// evict asks for as many victims as the capacity needs and checks each.
func (c *cell) evict() error {
	if c.weight != nil {
		return c.evictWeighed()
	}
	need, before := max(0, c.size-c.capacity), len(c.victims)
	c.victims = c.policy.Evict(need, c.victims)
	victims := c.victims[before:]
	if len(victims) < need {
		return fmt.Errorf("policy named %d victims, %d are needed (capacity %d blocks, %d resident)", len(victims), need, c.capacity, c.size)
	}
	for _, x := range victims {
		if uint32(x) >= uint32(len(c.state)) || c.state[x] != outside {
			return c.illegalVictim(x)
		}
		c.state[x] = absent
	}
	if c.staging.swaps {
		for _, x := range victims {
			c.lose(x)
		}
	}
	c.size -= len(victims)
	return nil
}

func (c *cell) illegalVictim(x int32) error {
	why := "is not resident (or was named twice)"
	switch {
	case uint32(x) >= uint32(len(c.state)):
		why = fmt.Sprintf("does not exist, blocks are 0 to %d", len(c.state)-1)
	case c.state[x] == demanded || c.state[x] == keptOut:
		why = "is in the step's demand"
	}
	return fmt.Errorf("policy named block %d as a victim, which %s", x, why)
}
