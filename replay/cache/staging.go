package cache

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// staging holds the prefetched blocks of a cell. They are in a buffer next to its cache, or with
// swaps in the cache.
type staging struct {
	source     setting.PrefetchSource
	swaps      bool
	view       *demand.Delta // the stream. Pools and tiers have no prefetcher
	size       int           // most blocks in the buffer, or swaps of a step
	blocks     []int32       // blocks in the buffer, best rank first
	next       []int32       // blocks of the next buffer, or blocks swapped in
	crowd      []int32       // blocks that were named at the step, but had no room
	state      []stagedState
	candidates []int32            // blocks that were named at the step, without pinned ones
	predictor  policies.Predictor // nil if none was needed yet
	expected   []int32            // blocks that the predictor names
	misses     []int32            // misses of the step that were not staged

	// Blocks of the step, for the tier below: fetched into the buffer, dropped from it before
	// the demand, dropped after it, and not demanded.
	moved, dropped, expired, unused []int32
	offered                         []int32
	rank                            []int32 // rank of each candidate of the step before, from 1, or 0 for other and ousted blocks

	counts Prefetched // of the current step
}

// Prefetched counts the blocks of a prefetcher.
type Prefetched struct {
	Moved   int64 // prefetched
	Useful  int64 // demanded while they were staged
	Late    int64 // named but missed, because the buffer was full
	Useless int64 // left the buffer without being demanded
}

type stagedState uint8

const (
	unstaged stagedState = iota
	carried              // in the buffer since an earlier step, not yet named again
	staged               // in the buffer for the current step
	crowded              // named, but the buffer is full
	ousted               // swapped out at the current step
)

// reset starts a stream with an empty buffer.
func (g *staging) reset(v demand.View, st *Start) {
	g.source, g.size, g.blocks, g.counts, g.swaps = st.Prefetch, st.Staging, g.blocks[:0], Prefetched{}, st.Swap
	g.moved, g.dropped, g.expired, g.unused = g.moved[:0], g.dropped[:0], g.expired[:0], g.unused[:0]
	if g.source == setting.PrefetchNothing {
		return
	}
	g.view = v.(*demand.Delta)
	g.state = policies.Fill(g.state, g.view.Blocks, unstaged)
	if g.learns() {
		if g.predictor == nil {
			g.predictor = st.NewPredictor()
		}
		g.predictor.Reset(g.view.Blocks)
	}
	if g.swaps {
		g.rank = policies.Fill(g.rank, g.view.Blocks, 0)
	}
}

// begin finds the blocks that the source names for row i, best rank first. It leaves out the blocks
// that are pinned at row at.
func (g *staging) begin(i, at int) {
	g.counts, g.next, g.crowd, g.candidates = Prefetched{}, g.next[:0], g.crowd[:0], g.candidates[:0]
	g.moved, g.dropped, g.expired, g.unused = g.moved[:0], g.dropped[:0], g.expired[:0], g.unused[:0]
	switch {
	case g.source == setting.PrefetchPredicted:
		g.candidates = g.view.Unpinned(g.candidates, g.view.Predicted(i), at)
	case g.learns():
		g.expected = g.predictor.Next(g.expected[:0])
		g.candidates = g.view.Unpinned(g.candidates, g.expected, at)
	case i > 0:
		g.candidates = g.view.Unpinned(g.candidates, g.view.Candidates(i-1), at)
	}
}

// learns reports whether a predictor is the source.
func (g *staging) learns() bool { return g.source == setting.PrefetchEcho }

// learn tells the predictor row i, a window or a counted step, after the prefetches for it.
func (g *staging) learn(born []int32, i int, ranks bool) {
	var candidates []int32
	if ranks {
		candidates = g.view.Candidates(i)
	}
	g.predictor.Step(born, g.view.Members(i), candidates)
}

// fill prefetches for row i, before the step is classified. It fetches the blocks that the source
// names, if neither the cache nor the buffer holds them. cached is the state of the cell's blocks.
func (g *staging) fill(cached []uint8, i int) {
	g.begin(i, i)
	for _, x := range g.blocks {
		g.state[x] = carried
	}
	for _, x := range g.candidates {
		switch {
		case cached[x] == outside || cached[x] == demanded:
		case len(g.next) < g.size:
			if g.state[x] != carried {
				g.counts.Moved++
				g.moved = append(g.moved, x)
			}
			g.state[x] = staged
			g.next = append(g.next, x)
		default:
			g.state[x] = crowded
			g.crowd = append(g.crowd, x)
		}
	}
	for _, x := range g.blocks {
		if g.state[x] != staged {
			g.counts.Useless++
			g.dropped = append(g.dropped, x)
		}
		if g.state[x] == carried {
			g.state[x] = unstaged
		}
	}
	g.blocks, g.next = g.next, g.blocks
}

// take removes the demanded blocks from the buffer, and returns the misses that were not staged.
func (g *staging) take(miss []int32) []int32 {
	g.misses = g.misses[:0]
	for _, x := range miss {
		switch g.state[x] {
		case staged:
			g.state[x] = unstaged
			g.counts.Useful++
			continue
		case crowded:
			g.counts.Late++
		}
		g.misses = append(g.misses, x)
	}
	stay := g.blocks[:0]
	for _, x := range g.blocks {
		if g.state[x] == staged {
			g.unused = append(g.unused, x)
		}
		switch {
		case g.state[x] != staged: // the step demanded it
		case g.source == setting.PrefetchPredicted: // a prediction is valid for one step
			g.state[x] = unstaged
			g.counts.Useless++
			g.expired = append(g.expired, x)
		default:
			stay = append(stay, x)
		}
	}
	g.blocks = stay
	g.clearCrowd()
	return g.misses
}

func (g *staging) clearCrowd() {
	for _, x := range g.crowd {
		g.state[x] = unstaged
	}
}

// swapIn prefetches for row i into the cache. It considers the blocks that the source names, best
// first, without pinned and resident blocks, and fetches at most size of them. If the cache
// is full, swapIn evicts the policy's next victim, but only if the victim ranks worse in that list.
// Blocks that are not in the list rank last. An evicted block does not return at this step. The
// policy sees fetched blocks in Offered: last used and inserted at the step before, after the
// blocks that left the demand.
func (c *Cell) swapIn(i int) error {
	g := &c.staging
	g.begin(i, max(0, i-1)) // leaves out births: row i-1 still pins them
	for r, x := range g.candidates {
		g.rank[x] = int32(r) + 1
	}
	for _, x := range g.candidates {
		if c.state[x] != absent || g.state[x] == ousted {
			continue
		}
		if len(g.next) == g.size {
			break
		}
		if c.size >= c.capacity {
			if open, err := c.oust(g.rank[x]); err != nil {
				return err
			} else if !open {
				break
			}
		}
		c.state[x], g.state[x] = outside, staged
		c.size++
		g.next = append(g.next, x)
	}
	for _, x := range c.victims { // not late if the step demands them
		g.state[x], g.rank[x] = unstaged, 0
	}
	g.counts.Moved = int64(len(g.next))
	return nil
}

// oust evicts the policy's next victim if it ranks worse than rank. It reports whether it did.
func (c *Cell) oust(rank int32) (bool, error) {
	peeker := c.Policy.(policies.Peeker) // setting.Unfit has refused other policies
	x, ok := peeker.Peek()
	if ok && (uint32(x) >= uint32(len(c.state)) || c.state[x] != outside) {
		return false, c.illegalVictim(x)
	}
	if !ok || c.staging.rank[x] != 0 && c.staging.rank[x] < rank {
		return false, nil
	}
	n := len(c.victims)
	if c.victims = c.Policy.Evict(1, c.victims); len(c.victims) != n+1 || c.victims[n] != x {
		return false, fmt.Errorf("policy named block %d in Peek, but %v in Evict", x, c.victims[n:])
	}
	err := c.remove(c.victims[n:])
	c.staging.state[x] = ousted
	return true, err
}

// offer returns the swapped blocks and the step's births.
func (c *Cell) offer(born []int32) []int32 {
	g := &c.staging
	g.offered = c.sorter.Sort(append(append(g.offered[:0], g.next...), born...))
	return g.offered
}

// useSwapped counts the swapped blocks that a step demands, and the misses that the prefetcher named
// but did not fetch.
func (c *Cell) useSwapped() {
	g := &c.staging
	for _, x := range c.hit {
		if g.state[x] == staged {
			g.state[x] = unstaged
			g.counts.Useful++
		}
	}
	for _, x := range c.miss {
		if g.rank[x] != 0 {
			g.counts.Late++
		}
	}
	for _, x := range g.candidates {
		g.rank[x] = 0
	}
}

// evicted counts a victim as useless if it was swapped in and never demanded.
func (g *staging) evicted(x int32) {
	if g.state[x] == staged {
		g.state[x] = unstaged
		g.counts.Useless++
	}
}
