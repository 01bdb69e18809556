package replay

import "fmt"

// weigh is what blocks take of the capacity: their number, or their entries where units
// have unequal sizes.
func (c *cell) weigh(blocks []int32) int {
	if c.weight == nil {
		return len(blocks)
	}
	n := 0
	for _, x := range blocks {
		n += int(c.weight[x])
	}
	return n
}

// surplusWeighed chooses which units of D_t are not kept because together they exceed the
// capacity: worst rank first, without ranks lowest index first, until the rest fits
// (SEMANTICS S5). It returns their number.
func (c *cell) surplusWeighed(d *Delta, i int, ranks bool) int {
	c.pass = c.pass[:0]
	c.held = c.weigh(d.Members.Row(i))
	excess := c.held - c.capacity
	list := d.ranked(i)
	for at := range list {
		if excess <= 0 {
			break
		}
		x := list[at]
		if ranks {
			x = list[len(list)-1-at]
		}
		excess -= int(c.weight[x])
		c.pass = append(c.pass, x)
	}
	c.held -= c.weigh(c.pass)
	return len(c.pass)
}

// evictWeighed asks for victims one by one, as nobody knows how many units make room, and
// checks each. Where part of D_t was not kept, all that it does not demand goes first.
func (c *cell) evictWeighed() error {
	for asked := false; ; asked = true {
		need := 0
		if outside := c.size > c.held; c.size > c.capacity || outside && c.leftOut > 0 {
			need = 1
		} else if asked {
			return nil
		}
		before := len(c.victims)
		c.victims = c.policy.Evict(need, c.victims)
		if len(c.victims)-before < need {
			return fmt.Errorf("policy named no victim (capacity %d entries, %d resident)", c.capacity, c.size)
		}
		for _, x := range c.victims[before:] {
			if uint32(x) >= uint32(len(c.state)) || c.state[x] != outside {
				return c.illegalVictim(x)
			}
			c.state[x] = absent
		}
		c.size -= c.weigh(c.victims[before:])
	}
}
