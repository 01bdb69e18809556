package cache

import (
	"github.com/kvreplay/kvreplay/replay/demand"
)

// Tier is a lower tier of a cell. It is a second cell and the demand that the cell above makes for
// it.
type Tier struct {
	Cell     *Cell
	view     demand.Pushed
	observer Observer
}

// TierStart holds the Start of a tier on a stream, and its observer.
type TierStart struct {
	Start
	Observer Observer
}

// NewTier makes c a tier. An inclusive tier keeps a copy of every block that passes through. An
// exclusive tier keeps the blocks that the cache above gives up.
func NewTier(c *Cell, inclusive bool) *Tier {
	if !inclusive {
		c.rule = moveUp{}
	}
	return &Tier{Cell: c, view: demand.Pushed{Inclusive: inclusive}}
}

// reset starts a stream below the GPU's cache.
func (t *Tier) reset(top demand.View, st TierStart) error {
	t.observer = st.Observer
	t.view.Reset(top)
	return t.Cell.reset(&t.view, st.Start)
}

// push makes the next row of the tier's demand from the same row of the cache above.
func (t *Tier) push(above *Cell) {
	if t.view.Inclusive {
		t.view.Push(above.miss, above.change.Positions, above.change.Born)
		return
	}
	t.view.Push(above.miss, 0, above.victims, above.notKept())
}
