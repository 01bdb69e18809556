package transfer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Segments is the order of the blocks of all streams on a drive. A stream is one layer's KV head,
// or a layer if heads select together.
type Segments int

// The orders, after KVDrive, section 7.2. Partitions give each stream a segment of its own. The
// other orders are those of serving systems in memory.
const (
	ByStream Segments = iota // stream after stream, with the blocks of one stream adjacent
	ByLayer                  // layer after layer, and within it block after block with all heads
	ByToken                  // block after block with all layers and heads
)

// Placement gives the place of each block of each stream on a drive, in units of blocks.
type Placement struct {
	Segments      Segments
	Layers, Heads int64
	Blocks        int64     // blocks of each stream
	orders        [][]int32 // rank of each block in its stream, nil for the order by index
}

// NewPlacement places blocks by index.
func NewPlacement(segments Segments, layers, heads, blocks int64) *Placement {
	return &Placement{Segments: segments, Layers: layers, Heads: heads, Blocks: blocks}
}

// Order sets the order of blocks within one stream. order lists all blocks, as Pack returns them.
func (p *Placement) Order(layer, head int64, order []int32) error {
	rank, err := inverse(order, p.Blocks)
	if err != nil {
		return fmt.Errorf("order of layer %d head %d: %w", layer, head, err)
	}
	if p.orders == nil {
		p.orders = make([][]int32, p.Layers*p.Heads)
	}
	p.orders[layer*p.Heads+head] = rank
	return nil
}

func inverse(order []int32, blocks int64) ([]int32, error) {
	if int64(len(order)) != blocks {
		return nil, fmt.Errorf("%d blocks, expected %d", len(order), blocks)
	}
	rank := slices.Repeat([]int32{-1}, len(order))
	for i, x := range order {
		if x < 0 || int64(x) >= blocks || rank[x] >= 0 {
			return nil, fmt.Errorf("block %d at place %d is out of range or appears twice", x, i)
		}
		rank[x] = int32(i)
	}
	return rank, nil
}

// Place returns the place of a block.
func (p *Placement) Place(layer, head int64, block int32) int64 {
	at := int64(block)
	if p.orders != nil && p.orders[layer*p.Heads+head] != nil {
		at = int64(p.orders[layer*p.Heads+head][block])
	}
	switch p.Segments {
	case ByLayer:
		return (layer*p.Blocks+at)*p.Heads + head
	case ByToken:
		return (at*p.Layers+layer)*p.Heads + head
	}
	return (layer*p.Heads+head)*p.Blocks + at
}

// Places appends the places of a stream's blocks to dst.
func (p *Placement) Places(layer, head int64, blocks []int32, dst []int64) []int64 {
	for _, x := range blocks {
		dst = append(dst, p.Place(layer, head, x))
	}
	return dst
}

// Extents counts the reads for blocks at places, which it sorts. It reads whole extents of
// extentBlocks blocks, and adjacent extents in one read (KVDrive: requests are coalesced into
// extent-sized sequential reads). reads is their number, blocks the number of blocks in them.
func Extents(places []int64, extentBlocks int64) (reads, blocks int64) {
	slices.Sort(places)
	last := int64(-2)
	for _, at := range places {
		extent := at / max(1, extentBlocks)
		switch extent {
		case last:
			continue
		case last + 1:
		default:
			reads++
		}
		blocks += max(1, extentBlocks)
		last = extent
	}
	return reads, blocks
}

// Pack orders a stream's blocks so that those demanded together are adjacent (semantic-contiguity
// packing). history holds earlier demands, each ascending, for example of a prompt's windows. Pack
// joins blocks that follow each other in a demand into chains, most frequent pairs first, as Pettis
// and Hansen order code (PLDI 1990). Chains are ordered by the mean number of demands of their
// blocks. Blocks that were never demanded come last. Ties go to the lower index. The time is that
// of sorting the demands' pairs.
func Pack(blocks int64, history [][]int32) []int32 {
	pairs, uses := affinities(blocks, history)
	chains := chainsOf(blocks, pairs)
	for i := range chains {
		sum := slice.Sum(chains[i].blocks, func(x int32) int64 { return uses[x] })
		chains[i].uses = float64(sum) / float64(len(chains[i].blocks))
	}
	slices.SortStableFunc(chains, func(a, b chain) int { return cmp.Compare(b.uses, a.uses) })
	order := make([]int32, 0, blocks)
	for _, c := range chains {
		order = append(order, c.blocks...)
	}
	return order
}

// chain holds blocks that stay together, and the mean number of demands of one.
type chain struct {
	blocks []int32
	uses   float64
}

// pair holds two blocks and the number of demands in which they are neighbours.
type pair struct {
	a, b  int32
	count int64
}

func affinities(blocks int64, history [][]int32) (pairs []pair, uses []int64) {
	uses = make([]int64, blocks)
	count := map[[2]int32]int64{}
	for _, demand := range history {
		for i, x := range demand {
			uses[x]++
			if i > 0 {
				count[[2]int32{demand[i-1], x}]++
			}
		}
	}
	for ab, n := range count {
		pairs = append(pairs, pair{ab[0], ab[1], n})
	}
	slices.SortFunc(pairs, func(p, q pair) int {
		return cmp.Or(cmp.Compare(q.count, p.count), cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
	})
	return pairs, uses
}

// chainsOf joins blocks by pairs: the end of one chain to the beginning of another. The chains are
// ordered by their first block.
func chainsOf(blocks int64, pairs []pair) []chain {
	next, first := make([]int32, blocks), make([]bool, blocks)
	for x := range next {
		next[x], first[x] = -1, true
	}
	for _, p := range pairs { // a < b in each pair, so no chain closes
		if next[p.a] < 0 && first[p.b] {
			next[p.a], first[p.b] = p.b, false
		}
	}
	var chains []chain
	list := make([]int32, 0, blocks) // one array for all chains
	for x := range next {
		if !first[x] {
			continue
		}
		begin := len(list)
		for at := int32(x); at >= 0; at = next[at] {
			list = append(list, at)
		}
		chains = append(chains, chain{blocks: list[begin:len(list):len(list)]})
	}
	return chains
}
