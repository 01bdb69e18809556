package replay

// pushed is the View of a lower tier. The cache above it makes its demand row by row, and
// only the latest row is known.
//
// An exclusive tier keeps the blocks that the cache above evicts or does not keep: they are
// its births, in the order in which they left. The blocks it is asked for move up. An
// inclusive tier keeps a copy of every block that passes through: its demand is what the
// cache above misses, and its births are the births of the GPU's cache.
type pushed struct {
	Extent
	top       View // of the GPU's cache
	inclusive bool

	demand, born []int32
	before       []int32 // the demand of the row before
	enter, exit  []int32
	positions    int
}

// reset starts a stream below the GPU's cache.
func (p *pushed) reset(top View) {
	x := top.Bounds()
	p.Extent = Extent{Blocks: x.Blocks, Rows: x.Rows, Windows: x.Windows, MaxDemand: x.MaxDemand, Streams: x.Streams, Stride: x.Stride, HasMembers: true}
	p.top, p.demand = top, p.demand[:0]
}

// push makes the next row from the same row of the cache above.
func (p *pushed) push(above *cell) {
	p.before, p.demand = p.demand, append(p.before[:0], above.miss...)
	if p.inclusive {
		p.enter = appendDifference(p.enter[:0], p.demand, p.before)
		p.exit = appendDifference(p.exit[:0], p.before, p.demand)
		p.born = append(p.born[:0], above.change.Born...)
		p.positions = above.change.Positions
		return
	}
	p.enter = p.demand
	p.born = append(append(p.born[:0], above.victims...), above.notKept()...)
}

// appendDifference appends the members of a that are not in b to dst; both ascend.
func appendDifference(dst, a, b []int32) []int32 {
	for _, x := range a {
		for len(b) > 0 && b[0] < x {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != x {
			dst = append(dst, x)
		}
	}
	return dst
}

// Change leaves out the positions of an exclusive tier, which writes none back.
func (p *pushed) Change(_ int, c *Change) {
	*c = Change{Demand: len(p.demand), Enter: p.enter, Exit: p.exit, Born: p.born}
	if p.inclusive {
		c.Positions = p.positions
	}
}

func (p *pushed) Members(int) []int32               { return p.demand }
func (p *pushed) Ranked(i int) []int32              { return p.top.Ranked(i) }
func (p *pushed) Scored(i int) ([]int32, []float32) { return p.top.Scored(i) }
func (p *pushed) Picked(int) []int32                { return nil } // tiers exchange whole blocks
func (p *pushed) Pinned(int) int                    { return 0 }   // on the GPU
func (p *pushed) Step(i int) int32                  { return p.top.Step(i) }

// Candidates are the whole list: the caches above may hold blocks of any rank.
func (p *pushed) Candidates(i int) []int32 {
	if pool, ok := p.top.(*pool); ok {
		return pool.candidates(i, true)
	}
	list, _ := p.top.Scored(i)
	return list
}

// tier is a lower tier of a cell: a cell of its own, and the demand that the cell above
// makes for it.
type tier struct {
	cell     *cell
	view     pushed
	observer Observer
}

// tierStart is how a tier begins on a stream, and its observer.
type tierStart struct {
	start
	observer Observer
}

// newTiers makes the tiers below a cell, the first of which has the others below it.
func newTiers(tiers []Tier, inclusive bool) *tier {
	if len(tiers) == 0 {
		return nil
	}
	t := newTier(newCell(tiers[0].Policy.Make()), inclusive)
	t.cell.lower = newTiers(tiers[1:], inclusive)
	return t
}

func newTier(c *cell, inclusive bool) *tier {
	if !inclusive {
		c.rule = moveUp{}
	}
	return &tier{cell: c, view: pushed{inclusive: inclusive}}
}

// reset starts a stream below the GPU's cache.
func (t *tier) reset(top View, st tierStart) error {
	t.observer = st.observer
	t.view.reset(top)
	return t.cell.reset(&t.view, st.start)
}
