package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// growth is a later part of a capacity that grows: from a decode step on, so much
// (KVDrive grows its caches until looking up takes as long as fetching, section on
// scheduling).
type growth struct {
	from     int32 // decode step
	capacity Capacity
}

// parseGrowing reads "1x+2x@64+4x@128": 1 × K at first, 2 × K from step 64 on, 4 × K
// from step 128 on.
func parseGrowing(text string) (Capacity, error) {
	parts := strings.Split(text, "+")
	first, err := ParseCapacity(parts[0])
	if err != nil {
		return first, err
	}
	c := first
	c.text = result.CapacityText(text)
	last := 0
	for _, part := range parts[1:] {
		size, step, timed := strings.Cut(part, "@")
		from, err := strconv.Atoi(step)
		if !timed || err != nil || from <= last || from > 1<<30 {
			return c, fmt.Errorf("capacity %q: expected SIZE+SIZE@STEP+…, as in 1x+2x@64, steps from 1 and rising", text)
		}
		last = from
		later, err := ParseCapacity(size)
		if err != nil {
			return c, fmt.Errorf("capacity %q: %w", text, err)
		}
		if later.kind != first.kind || later.kind == peakOf || later.value.Compare(c.last().value) <= 0 {
			return c, fmt.Errorf("capacity %q: expected sizes of one form that grow, %s follows %s", text, size, c.last().text)
		}
		c.growth = append(c.growth, growth{int32(from), later})
	}
	return c, nil
}

// last is the largest part.
func (c Capacity) last() Capacity {
	if len(c.growth) == 0 {
		return c
	}
	return c.growth[len(c.growth)-1].capacity
}

// grown is a later part, in blocks.
type grown struct {
	from   int32
	blocks int
}

// parts resolves the parts of a capacity that grows.
func (c Capacity) parts(s sizing) (later []grown, err error) {
	for _, g := range c.growth {
		blocks, err := g.capacity.blocks(s)
		if err != nil {
			return nil, err
		}
		later = append(later, grown{g.from, blocks})
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
