package replay

import "github.com/kvreplay/kvreplay/replay/setting"

// grown is a later part, in blocks.
type grown struct {
	from   int32
	blocks int
}

// growthOn resolves the later parts of a capacity for a stream.
func growthOn(c *Capacity, s setting.Sizing) (later []grown, err error) {
	for _, g := range c.Later() {
		blocks, err := g.Capacity.Blocks(s)
		if err != nil {
			return nil, err
		}
		later = append(later, grown{g.From, blocks})
	}
	return later, nil
}

// grow gives the cell what it may keep at a decode step; it may be less than before.
func (c *cell) grow(step int32) {
	for len(c.later) > 0 && step >= c.later[0].from {
		c.capacity = c.later[0].blocks
		c.later = c.later[1:]
		if c.resizer != nil {
			c.resizer.Resize(c.capacity)
		}
	}
}
