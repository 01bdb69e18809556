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
