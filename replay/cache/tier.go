package cache

import (
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
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

// reset starts a stream below the GPU's cache, whose staging buffer holds staged blocks.
func (t *Tier) reset(top demand.View, staged int, st TierStart) error {
	t.observer = st.Observer
	t.view.Reset(top, staged, st.Ranks)
	return t.Cell.reset(&t.view, st.Start)
}

// push makes the next row of the tier's demand from the same row of the cache above. top is the GPU's
// cache.
func (t *Tier) push(above, top *Cell) {
	if t.view.Inclusive {
		t.view.Push(above.taken(), nil, top.sorter.Sort(top.staging.unused), above.change.Positions, above.change.Born)
		return
	}
	g := &above.staging
	t.view.Push(above.taken(), above.sorter.Sort(g.dropped), nil, 0, above.victims, above.notKept(), above.sorter.Sort(g.expired))
}

// taken returns the blocks that the cell has fetched from below for the step, ahead or on demand,
// ascending.
func (c *Cell) taken() []int32 {
	g := &c.staging
	if g.source == setting.PrefetchNothing {
		return c.miss
	}
	g.offered = c.sorter.Sort(append(append(g.offered[:0], g.moved...), c.fetched...))
	return g.offered
}
