package cache

import (
	"github.com/kvreplay/kvreplay/replay/demand"
)

// Tier is a lower tier of a cell: a cell of its own, and the demand that the cell above
// makes for it.
type Tier struct {
	Cell     *Cell
	view     demand.Pushed
	observer Observer
}

// TierStart is how a tier begins on a stream, and its observer.
type TierStart struct {
	Start
	Observer Observer
}

// NewTier puts a cell below another one. An inclusive tier keeps a copy of what passes through,
// an exclusive one what the cache above gives up.
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
