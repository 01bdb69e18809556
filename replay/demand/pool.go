package demand

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Pool is the View of streams that share a cache. All streams are in memory. Its rows are those
// of all streams in decode order: step by step, and at each step stream by stream. Row i is row
// i / Streams of stream i mod Streams. Consecutive rows belong to different streams. All demand of
// a row therefore enters with it, and leaves with the next row.
type Pool struct {
	Dims
	nexts
	followed nexts    // of type Followed
	streams  []*Delta // changes and members have block ids of the pool, all other lists those of the stream
	changes  bool     // the changes of each stream are derived
	ranked   []rankedPart[int32]
	merged   []int32 // candidates of a row
	raised   []int32
}

// Grow makes room for n streams.
func (p *Pool) Grow(n int) {
	for len(p.streams) < n {
		p.streams = append(p.streams, new(Delta))
	}
	p.streams = p.streams[:n]
}

// Add derives the demand of stream n.
func (p *Pool) Add(n int, stream *trace.Stream, o Options, check *trace.Checker) error {
	p.changes = o.Followed
	o.NextUses, o.whole, o.at = false, !o.Followed, n
	o.Members = o.Members || o.whole
	return p.streams[n].Build(stream, o, check)
}

// Build joins the added streams. Changes have no next uses before Foresee is called.
func (p *Pool) Build() {
	n, first := len(p.streams), p.streams[0]
	p.Dims = Dims{Blocks: n * first.Blocks, Rows: n * first.Rows, Windows: n * first.Windows, Streams: n, Stride: first.Stride,
		PinnedPeaks: p.PinnedPeaks[:0], FirstUse: p.FirstUse, HasMembers: true, HasPicked: first.HasPicked}
	for _, d := range p.streams {
		p.MaxDemand = max(p.MaxDemand, d.MaxDemand)
		p.PinnedPeaks = append(p.PinnedPeaks, d.PinnedPeaks...)
	}
	p.known, p.followed.known = false, false
}

// Foresee computes the next uses of the pool's changes.
func (p *Pool) Foresee() {
	if !p.known {
		p.fill(p)
	}
}

// Unequal returns the first stream whose steps differ from those of stream 0, or nil if none differs.
func (p *Pool) Unequal() *trace.Stream {
	for _, d := range p.streams {
		if !slices.Equal(d.stream.Steps, p.streams[0].stream.Steps) {
			return d.stream
		}
	}
	return nil
}

func (p *Pool) deltas() []*Delta { return p.streams }

// at returns the stream of row i, and the row's index in that stream.
func (p *Pool) at(i int) (d *Delta, row int) {
	n := len(p.streams)
	return p.streams[i%n], i / n
}

// raise converts a list of a stream to block ids of the pool.
func (p *Pool) raise(m *Delta, list []int32) []int32 {
	p.raised = p.raised[:0]
	for _, b := range list {
		p.raised = append(p.raised, m.base+b)
	}
	return p.raised
}

func (p *Pool) Change(i int, c *Change) {
	m, row := p.at(i)
	m.Change(row, c)
	c.Enter, c.Exit = m.Members(row), nil
	if p.HasPicked {
		c.EnterPicked = m.Picked(row)
	}
	if i > 0 {
		c.Exit = p.Members(i - 1)
	}
	p.nexts.add(i, c)
}

func (p *Pool) Members(i int) []int32 { m, row := p.at(i); return m.Members(row) }
func (p *Pool) Ranked(i int) []int32  { m, row := p.at(i); return p.raise(m, m.Ranked(row)) }
func (p *Pool) Picked(i int) []int32  { m, row := p.at(i); return m.Picked(row) }
func (p *Pool) Pinned(i int) int      { m, row := p.at(i); return m.Pinned(row) }
func (p *Pool) Step(i int) int32      { m, row := p.at(i); return m.Step(row) }

func (p *Pool) Scored(i int) ([]int32, []float32) {
	m, row := p.at(i)
	list, scores := m.Scored(row)
	return p.raise(m, list), scores
}

// Candidates merges the list of row i behind its demand with the latest list of every other stream.
// It merges rank by rank. At equal ranks, the newest list comes first.
func (p *Pool) Candidates(i int) []int32 { return p.candidates(i, false) }

// Listed returns Candidates with the demand of row i's list.
func (p *Pool) Listed(i int) []int32 { return p.candidates(i, true) }

// candidates returns the candidates of row i. With all, they include the demand of its list.
func (p *Pool) candidates(i int, all bool) []int32 {
	n := len(p.streams)
	own, row := i%n, i/n
	p.ranked = p.ranked[:0]
	for age := range n {
		s, at := own-age, row
		if s < 0 {
			s, at = s+n, row-1
		}
		if at < 0 {
			break // row 0 of this stream comes later
		}
		m := p.streams[s]
		list, demand := m.rows.list(m.first + at)
		if age > 0 || all {
			demand = 0
		}
		p.ranked = append(p.ranked, rankedPart[int32]{list, demand, m.base})
	}
	p.merged = mergeRanks(p.merged[:0], p.ranked)
	return p.merged
}
