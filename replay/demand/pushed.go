package demand

// Pushed is the View of a lower tier. The cache above makes its demand row by row, and a Pushed
// holds only the latest row.
//
// The demand of a tier is the misses of the cache above. An exclusive tier keeps the blocks that
// the cache above evicts or does not keep. These blocks are its births, in the order in which
// they left. Demanded blocks move up, out of the tier. An inclusive tier keeps a copy of every
// block that passes through, and its births are the births of the GPU's cache.
type Pushed struct {
	Extent
	Inclusive bool // the tier keeps a copy of every block that passes through
	top       View // the View of the GPU's cache

	demand, born []int32
	before       []int32 // the demand of the row before
	enter, exit  []int32
	positions    int
}

// Reset starts a stream below the GPU's cache.
func (p *Pushed) Reset(top View) {
	x := top.Bounds()
	p.Extent = Extent{Blocks: x.Blocks, Rows: x.Rows, Windows: x.Windows, MaxDemand: x.MaxDemand, Streams: x.Streams, Stride: x.Stride, HasMembers: true}
	p.top, p.demand = top, p.demand[:0]
}

// Push makes the next row. demand lists the blocks that the cache above missed, and born those that
// arrive. positions is the number of positions that the row decodes, 0 for an exclusive tier.
func (p *Pushed) Push(demand []int32, positions int, born ...[]int32) {
	p.before, p.demand = p.demand, append(p.before[:0], demand...)
	p.born, p.positions = p.born[:0], positions
	for _, blocks := range born {
		p.born = append(p.born, blocks...)
	}
	if !p.Inclusive {
		p.enter = p.demand
		return
	}
	p.enter = appendDifference(p.enter[:0], p.demand, p.before)
	p.exit = appendDifference(p.exit[:0], p.before, p.demand)
}

// appendDifference appends the members of a that are not in b to dst. Both ascend.
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

// Change implements View. Positions is 0 for an exclusive tier, because decoding writes no entry to
// it.
func (p *Pushed) Change(_ int, c *Change) {
	*c = Change{Demand: len(p.demand), Positions: p.positions, Enter: p.enter, Exit: p.exit, Born: p.born}
}

func (p *Pushed) Members(int) []int32               { return p.demand }
func (p *Pushed) Ranked(i int) []int32              { return p.top.Ranked(i) }
func (p *Pushed) Scored(i int) ([]int32, []float32) { return p.top.Scored(i) }
func (p *Pushed) Picked(int) []int32                { return nil } // tiers exchange whole blocks
func (p *Pushed) Pinned(int) int                    { return 0 }   // pinned blocks are on the GPU
func (p *Pushed) Step(i int) int32                  { return p.top.Step(i) }

// Candidates returns the whole list, because the tier may hold blocks of any rank.
func (p *Pushed) Candidates(i int) []int32 { return p.top.Listed(i) }
func (p *Pushed) Listed(i int) []int32     { return p.top.Listed(i) }
