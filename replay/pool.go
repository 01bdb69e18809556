package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// joins reports whether two streams share a cache.
func joins(p Pool, a, b trace.Key) bool {
	return p == PoolRequest && a.Request == b.Request || p == PoolLayer && sameLayer(a, b)
}

// settlePool finds the streams that share caches and checks that they can.
func (p *plan) settlePool() error {
	p.caches = p.caches[:0]
	for i := range p.streams {
		if last := len(p.caches) - 1; i > 0 && joins(p.opt.Pool, p.selected(i-1).Key, p.selected(i).Key) {
			p.caches[last].to = i + 1
		} else {
			p.caches = append(p.caches, cache{i, i + 1})
		}
	}
	if p.opt.Pool == PoolNone {
		return nil
	}
	for _, c := range p.caches {
		if err := p.poolable(c); err != nil {
			return err
		}
	}
	return nil
}

// poolable checks what the streams of a pool must have in common, and that their blocks
// can be numbered.
func (p *plan) poolable(c cache) error {
	first := p.selected(c.from)
	if c.streams() == 1 {
		return fmt.Errorf("pool %s: %v is the only stream of its %s, there is nothing to share a cache with", p.opt.Pool, first.Key, p.opt.Pool)
	}
	rows := int64(0)
	for i := c.from; i < c.to; i++ {
		s := p.selected(i)
		if s.PromptLen != first.PromptLen || s.Rows != first.Rows || s.Windows != first.Windows || s.FirstStep != first.FirstStep || s.LastStep != first.LastStep {
			return fmt.Errorf("pool %s: %v and %v share a cache but not their prompt length and steps", p.opt.Pool, first.Key, s.Key)
		}
		rows += int64(s.Rows)
	}
	if blocks := int64(p.pins.blocks(first.MaxSeqLen())) * int64(c.streams()); blocks > MostBlocks {
		return fmt.Errorf("pool %s: the contexts of the %d streams of %v are %d blocks in all; every block is held in memory, so that %d is the most; replay fewer --layers, larger --block-tokens, or share less (--pool layer, or no pool)",
			p.opt.Pool, c.streams(), first.Key, blocks, MostBlocks)
	}
	if most := rows * int64(p.m) * int64(p.layout.heads*p.layout.mtp); most > math.MaxInt32 {
		return fmt.Errorf("pool %s: the %d streams of %v list up to %d blocks in %d rows, a pool holds at most %d at once; replay fewer --layers",
			p.opt.Pool, c.streams(), first.Key, most, rows, math.MaxInt32)
	}
	return nil
}

// cache is the selected streams [from, to) that share one.
type cache struct{ from, to int }

func (c cache) streams() int { return c.to - c.from }

// pool are the streams that share a cache, in memory all at once, and the rows of all of
// them in decode order: step by step, at each step stream by stream. Row i of the pool is
// row i / streams of its stream i mod streams, whose block b is block stride × stream + b
// of the pool.
type pool struct {
	members []*member
	stride  int32

	merged  []int32 // candidates of a row
	listed  []int32
	changes lists // that members are built in
	leaving lists
}

// member is a stream of a pool.
type member struct {
	recorded []trace.Stream // the heads that share blocks
	joiner   *joiner        // nil where rows are replayed as recorded
	delta    Delta
}

// at is the stream of row i, and its own row.
func (p *pool) at(i int) (member *Delta, row int) {
	n := len(p.members)
	return &p.members[i%n].delta, i / n
}

// base is the first block of a stream.
func (p *pool) base(stream int) int32 { return int32(stream) * p.stride }

// owner is the stream of a block.
func (p *pool) owner(block int32) int { return int(block / p.stride) }

// grow makes room for n members.
func (p *pool) grow(n int) {
	for len(p.members) < n {
		p.members = append(p.members, new(member))
	}
	p.members = p.members[:n]
}

// buildPool derives what changes from row to row of the pool, whose members are built. Rows
// next to each other are of different streams: all of a row's demand enters, and leaves
// with the next row.
func (d *Delta) buildPool(p *pool, o deltaOptions) {
	first := &p.members[0].delta
	n := len(p.members)
	d.pool, d.joined, d.stream, d.pins, d.first = p, first.joined, first.stream, first.pins, 0
	d.Rows, d.Windows, d.MaxDemand = n*first.Rows, n*first.Windows, 0
	d.hasMembers = true
	p.stride = int32(first.Blocks)
	d.Blocks = n * first.Blocks
	d.Size, d.Picked = d.Size[:0], d.Picked[:0]
	d.Enter.reset()
	d.Born.reset()
	ends := append(d.Exit.ends[:0], 0)
	for i := range d.Rows {
		m, row := p.at(i)
		base := p.base(i % n)
		ends = append(ends, int32(len(d.Enter.items)))
		d.Enter.append(m.Members.Row(row), base)
		d.Born.append(m.Born.Row(row), base)
		if m.weighed() {
			d.Picked = append(d.Picked, m.picked(row)...)
		}
		d.Size = append(d.Size, m.Size[row])
		d.MaxDemand = max(d.MaxDemand, int(m.Size[row]))
	}
	d.Members = d.Enter
	d.Exit = lists{d.Enter.items, ends} // row i leaves what row i-1 entered
	if o.nexts {
		d.nextUses()
	}
}

// candidates are what policies see of row i beside its demand: the ranks behind the
// demand of its own list, and rank by rank all of the latest list of every other stream.
// Of one rank that of the newest list comes first.
func (p *pool) candidates(i int, lower bool) []int32 {
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
			list := m.stream.List(m.first + at)
			if rank >= m.listed(list) {
				continue
			}
			more = true
			if age > 0 || lower || rank >= m.prefix(m.first+at, list) {
				p.merged = append(p.merged, p.base(s)+list[rank])
			}
		}
	}
	return p.merged
}

// raised is a list of row i in blocks of the pool.
func (p *pool) raised(i int, list []int32) []int32 {
	base := p.base(i % len(p.members))
	p.listed = p.listed[:0]
	for _, b := range list {
		p.listed = append(p.listed, base+b)
	}
	return p.listed
}

// readPool reads the streams of the cache and derives the pool's delta.
func (w *worker) readPool() error {
	p, pool := w.plan, &w.pool
	pool.grow(w.cache.streams())
	for n, m := range pool.members {
		if m.recorded == nil {
			m.recorded = make([]trace.Stream, p.layout.heads)
			if !p.layout.plain() {
				m.joiner = p.newJoiner()
			}
		}
		stream, err := w.read(w.cache.from+n, m.recorded, m.joiner)
		if err != nil {
			return err
		}
		if n == 0 {
			w.stream = stream
		}
		if err := w.buildMember(m, stream); err != nil {
			return err
		}
	}
	if i := pool.unequal(); i > 0 {
		return fmt.Errorf("%s: pool %s: %v and %v share a cache but not their steps", p.file.Path(), p.opt.Pool, w.stream.Key, pool.members[i].delta.stream.Key)
	}
	w.delta.buildPool(pool, p.deltaOptions(nil))
	return nil
}

// buildMember derives the demand of a stream. What changes from row to row is not kept:
// the pool has changes of its own.
func (w *worker) buildMember(m *member, stream *trace.Stream) error {
	o := w.plan.deltaOptions(m.joiner)
	o.members, o.nexts = true, false
	m.delta.Enter, m.delta.Exit = w.pool.changes, w.pool.leaving
	err := m.delta.build(stream, o, w.check)
	w.pool.changes, w.pool.leaving = m.delta.Enter, m.delta.Exit
	m.delta.Enter, m.delta.Exit = lists{}, lists{}
	return err
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

// recorded are the streams that are replayed as the trace has them: for each stream of
// the cache the heads that share its blocks.
func (w *worker) recorded() (streams [][]*trace.Stream) {
	if w.plan.opt.Pool == PoolNone {
		return [][]*trace.Stream{pointers(w.streams)}
	}
	for _, m := range w.pool.members {
		streams = append(streams, pointers(m.recorded))
	}
	return streams
}

func pointers(streams []trace.Stream) (all []*trace.Stream) {
	for i := range streams {
		all = append(all, &streams[i])
	}
	return all
}
