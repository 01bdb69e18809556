package demand

import "slices"

// Pushed is the View of a lower tier. The cache above makes its demand row by row, and a Pushed
// holds only the latest row.
//
// The demand of a tier is the blocks that the cache above fetches: misses and prefetched blocks. An
// exclusive tier keeps the blocks that the cache above evicts or does not keep. These blocks are its
// births, in the order in which they left. Demanded blocks move up, out of the tier. Blocks that a
// staging buffer drops before the demand return before it. An inclusive tier keeps a copy of every
// block that passes through, and its births are the births of the GPU's cache.
type Pushed struct {
	Dims
	Inclusive bool // the tier keeps a copy of every block that passes through
	top       View // the View of the GPU's cache
	ranks     bool

	demand, born []int32
	returned     []int32
	staged       []int32 // blocks that the row's demand may have from a prefetcher alone
	ranked       []int32
	before       []int32 // the demand of the row before
	enter, exit  []int32
	positions    int
}

// Reset starts a stream below the GPU's cache, whose staging buffer holds staged blocks.
// ranks states that lists are in rank order.
func (p *Pushed) Reset(top View, staged int, ranks bool) {
	x := top.Size()
	p.Dims = Dims{Blocks: x.Blocks, Rows: x.Rows, Windows: x.Windows, MaxDemand: min(x.Blocks, x.MaxDemand+staged), Streams: x.Streams, Stride: x.Stride, HasMembers: true}
	p.top, p.demand, p.ranks = top, p.demand[:0], ranks
}

// Push makes the next row. demand lists the blocks that the cache above fetched. returned are those
// that arrive before the demand, and born those that arrive after it. staged lists the blocks of the
// GPU's staging buffer that its demand left there, ascending. positions is the number of positions
// that the row decodes, 0 for an exclusive tier.
func (p *Pushed) Push(demand, returned, staged []int32, positions int, born ...[]int32) {
	p.returned, p.staged = append(p.returned[:0], returned...), staged
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
	*c = Change{Demand: len(p.demand), Positions: p.positions, Enter: p.enter, Exit: p.exit, Born: p.born, Returned: p.returned}
}

func (p *Pushed) Members(int) []int32               { return p.demand }
func (p *Pushed) Scored(i int) ([]int32, []float32) { return p.top.Scored(i) }
func (p *Pushed) Picked(int) []int32                { return nil } // tiers exchange whole blocks
func (p *Pushed) Pinned(int) int                    { return 0 }   // pinned blocks are on the GPU
func (p *Pushed) Step(i int) int32                  { return p.top.Step(i) }

// Ranked returns the list of the GPU's demand. Blocks that only a prefetcher fetched rank behind it.
func (p *Pushed) Ranked(i int) []int32 {
	if len(p.staged) == 0 {
		return p.top.Ranked(i)
	}
	p.ranked = append(append(p.ranked[:0], p.top.Ranked(i)...), p.staged...)
	if !p.ranks {
		slices.Sort(p.ranked)
	}
	return p.ranked
}

// Candidates returns the whole list, because the tier may hold blocks of any rank.
func (p *Pushed) Candidates(i int) []int32 { return p.top.Listed(i) }
func (p *Pushed) Listed(i int) []int32     { return p.top.Listed(i) }
