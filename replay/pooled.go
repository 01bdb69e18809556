package replay

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// pool is the View of streams that share a cache. All are in memory. Its rows are those of
// all streams in decode order: step by step, and at each step stream by stream. Row i is row
// i / Streams of stream i mod Streams. Rows next to each other belong to different streams:
// all of a row's demand enters, and leaves with the next row.
type pool struct {
	Extent
	nexts
	members []*member
	merged  []int32 // candidates of a row
	raised  []int32
}

// member is a stream of a pool. The ids in the members and births of its delta are those of
// the pool, all others are those of the stream.
type member struct {
	recorded []trace.Stream // the heads that share blocks
	joiner   *joiner        // nil if rows are replayed as recorded
	delta    Delta
}

// grow makes room for n members.
func (p *pool) grow(n int) {
	for len(p.members) < n {
		p.members = append(p.members, new(member))
	}
	p.members = p.members[:n]
}

// add derives the demand of member n from its stream.
func (p *pool) add(n int, stream *trace.Stream, o deltaOptions, check *trace.Checker) error {
	o.nexts, o.pooled, o.at = false, true, n
	return p.members[n].delta.build(stream, o, check)
}

// build joins the members, which have been added.
func (p *pool) build(nexts bool) {
	n, first := len(p.members), &p.members[0].delta
	p.Extent = Extent{Blocks: n * first.Blocks, Rows: n * first.Rows, Windows: n * first.Windows, Streams: n, Stride: first.Stride,
		PinnedPeaks: p.PinnedPeaks[:0], FirstUse: p.FirstUse, HasMembers: true, HasPicked: first.HasPicked}
	for _, m := range p.members {
		p.MaxDemand = max(p.MaxDemand, m.delta.MaxDemand)
		p.PinnedPeaks = append(p.PinnedPeaks, m.delta.PinnedPeaks...)
	}
	if p.known = false; nexts {
		p.fill(p)
	}
}

// unequal is the first member whose rows are not at the steps of the first one's; 0 for none.
func (p *pool) unequal() int {
	first := p.members[0].delta.stream
	for i, m := range p.members {
		if !slices.Equal(m.delta.stream.Steps, first.Steps) {
			return i
		}
	}
	return 0
}

// at is the stream of row i, and its own row.
func (p *pool) at(i int) (member *Delta, row int) {
	n := len(p.members)
	return &p.members[i%n].delta, i / n
}

// raise returns a list of a member in ids of the pool.
func (p *pool) raise(m *Delta, list []int32) []int32 {
	p.raised = p.raised[:0]
	for _, b := range list {
		p.raised = append(p.raised, m.base+b)
	}
	return p.raised
}

func (p *pool) Change(i int, c *Change) {
	m, row := p.at(i)
	m.Change(row, c)
	c.Enter, c.Exit = m.Members(row), nil
	if i > 0 {
		c.Exit = p.Members(i - 1)
	}
	p.nexts.add(i, c)
}

func (p *pool) Members(i int) []int32 { m, row := p.at(i); return m.Members(row) }
func (p *pool) Ranked(i int) []int32  { m, row := p.at(i); return p.raise(m, m.Ranked(row)) }
func (p *pool) Picked(i int) []int32  { m, row := p.at(i); return m.Picked(row) }
func (p *pool) Pinned(i int) int      { m, row := p.at(i); return m.Pinned(row) }
func (p *pool) Step(i int) int32      { m, row := p.at(i); return m.Step(row) }

func (p *pool) Scored(i int) ([]int32, []float32) {
	m, row := p.at(i)
	list, scores := m.Scored(row)
	return p.raise(m, list), scores
}

// Candidates are the ranks behind the demand of the row's own list, and rank by rank all of
// the latest list of every other stream. Of one rank, that of the newest list comes first.
func (p *pool) Candidates(i int) []int32 { return p.candidates(i, false) }

// candidates are those of row i; with all, the demand of its own list is among them.
func (p *pool) candidates(i int, all bool) []int32 {
	n := len(p.members)
	own, row := i%n, i/n
	p.merged = p.merged[:0]
	for rank, more := 0, true; more; rank++ {
		more = false
		for age := range n {
			s, at := own-age, row
			if s < 0 {
				s, at = s+n, row-1
			}
			if at < 0 {
				break // not replayed
			}
			m := &p.members[s].delta
			list, demand := m.rows.list(m.first + at)
			if rank >= len(list) {
				continue
			}
			more = true
			if age > 0 || all || rank >= demand {
				p.merged = append(p.merged, m.base+list[rank])
			}
		}
	}
	return p.merged
}
