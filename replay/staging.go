package replay

import "github.com/kvreplay/kvreplay/policies"

// staging is the buffer of prefetched blocks beside a cell's cache.
type staging struct {
	source PrefetchSource
	size   int
	blocks []int32 // in the buffer, best rank first
	next   []int32
	crowd  []int32 // named at the step, but there was no room
	is     []stagedState
	left   []int32 // misses of the step that were not staged
	swaps  bool    // into the cache, there is no buffer: see swap.go
	rank   []int32 // of the candidates of the step before, by block: 1 for the best, 0 for none

	counts prefetched // of the step at hand
}

// prefetched counts blocks fetched ahead.
type prefetched struct {
	moved   int64 // fetched
	useful  int64 // demanded while they were staged
	late    int64 // named and missed all the same: the buffer was full
	useless int64 // left the buffer without ever being demanded
}

type stagedState uint8

const (
	unstaged stagedState = iota
	held                 // in the buffer, not named again so far
	staged               // in the buffer for the step at hand
	crowded              // named, but the buffer is full, or what is cached ranks better
	ousted               // swapped out for the step at hand
)

// reset empties the buffer for a stream.
func (g *staging) reset(st *start, blocks int) {
	g.source, g.size, g.blocks, g.counts, g.swaps = st.prefetch, st.staging, g.blocks[:0], prefetched{}, st.swaps
	if g.source != PrefetchNothing {
		g.is = policies.Fill(g.is, blocks, unstaged)
	}
	if g.swaps {
		g.rank = policies.Fill(g.rank, blocks, 0)
	}
}

// fill fetches ahead of row i what the source names and neither the cache nor the
// buffer holds, before the step is classified.
func (g *staging) fill(c *cell, d *Delta, i int) {
	g.counts, g.next, g.crowd = prefetched{}, g.next[:0], g.crowd[:0]
	for _, x := range g.blocks {
		g.is[x] = held
	}
	free, local := d.unpinned(i)
	for _, x := range d.named(g.source, i) {
		switch {
		case int(x) < free || int(x) >= local || d.isKept(x) || c.state[x] == outside || c.state[x] == demanded:
		case len(g.next) < g.size:
			if g.is[x] != held {
				g.counts.moved++
			}
			g.is[x] = staged
			g.next = append(g.next, x)
		default:
			g.is[x] = crowded
			g.crowd = append(g.crowd, x)
		}
	}
	for _, x := range g.blocks {
		if g.is[x] != staged {
			g.counts.useless++
		}
		if g.is[x] == held {
			g.is[x] = unstaged
		}
	}
	g.blocks, g.next = g.next, g.blocks
}

// take serves what it can of a step's misses and returns the rest.
func (g *staging) take(miss []int32) []int32 {
	g.left = g.left[:0]
	for _, x := range miss {
		switch g.is[x] {
		case staged:
			g.is[x] = unstaged
			g.counts.useful++
			continue
		case crowded:
			g.counts.late++
		}
		g.left = append(g.left, x)
	}
	stay := g.blocks[:0]
	for _, x := range g.blocks {
		switch {
		case g.is[x] != staged: // demanded
		case g.source == PrefetchPredicted: // it was predicted for this step
			g.is[x] = unstaged
			g.counts.useless++
		default:
			stay = append(stay, x)
		}
	}
	g.blocks = stay
	for _, x := range g.crowd {
		g.is[x] = unstaged
	}
	return g.left
}

// named are the blocks that the source names for row i, best rank first.
func (d *Delta) named(source PrefetchSource, i int) []int32 {
	switch {
	case source == PrefetchPredicted:
		return d.stream.PredictedList(d.first + i)
	case i > 0:
		return d.Candidates(i - 1)
	}
	return nil
}

// unpinned is the range [free, local) of blocks that are not pinned at row i.
func (d *Delta) unpinned(i int) (free, local int) {
	return d.pins.firstFree(), d.pins.firstLocal(d.stream.SeqLen(d.first + i))
}
