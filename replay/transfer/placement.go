package transfer

import (
	"cmp"
	"fmt"
	"slices"
)

// Segments says in which order a drive has the blocks of all streams (a stream is one
// layer's KV head, or a layer where heads select together).
type Segments int

// The orders, after KVDrive, section 7.2: partitions give each stream a segment of its
// own; the others are what serving systems have in memory.
const (
	ByStream Segments = iota // stream after stream: blocks of one are neighbours
	ByLayer                  // layer after layer; in it block after block with all heads
	ByToken                  // block after block with all layers and heads
)

// Placement is where on a drive each block of each stream lies, in units of blocks.
type Placement struct {
	Segments      Segments
	Layers, Heads int64
	Blocks        int64     // of each stream
	orders        [][]int32 // rank of each block in its stream; nil is by index
}

// NewPlacement places blocks by index.
func NewPlacement(segments Segments, layers, heads, blocks int64) *Placement {
	return &Placement{Segments: segments, Layers: layers, Heads: heads, Blocks: blocks}
}

// Order gives one stream's blocks another order within it: order lists all blocks, first
// first, as Pack returns them.
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
			return nil, fmt.Errorf("block %d at place %d is out of range or stands twice", x, i)
		}
		rank[x] = int32(i)
	}
	return rank, nil
}

// Place is where a block lies.
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

// Extents is what must be read for blocks at places, which it sorts: reads of whole
// extents of extentBlocks blocks, adjacent extents in one read (KVDrive: requests are
// coalesced into extent-sized sequential reads). reads counts them, blocks what they hold.
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

// Pack orders a stream's blocks so that those demanded together lie together
// (semantic-contiguity packing). history are demands seen so far, each ascending, as of a
// prompt's last windows. Blocks that follow each other in a demand are joined into chains,
// the pairs that do so most often first, as Pettis and Hansen order code (PLDI 1990);
// chains follow by how often their blocks are demanded on average, blocks never demanded
// come last. Ties go to the lower index. Time is that of sorting the demands' pairs.
func Pack(blocks int64, history [][]int32) []int32 {
	pairs, uses := affinities(blocks, history)
	chains := chainsOf(blocks, pairs)
	for i := range chains {
		var sum int64
		for _, x := range chains[i].blocks {
			sum += uses[x]
		}
		chains[i].uses = float64(sum) / float64(len(chains[i].blocks))
	}
	slices.SortStableFunc(chains, func(a, b chain) int { return cmp.Compare(b.uses, a.uses) })
	order := make([]int32, 0, blocks)
	for _, c := range chains {
		order = append(order, c.blocks...)
	}
	return order
}

// chain are blocks that stay together, and how often one is demanded on average.
type chain struct {
	blocks []int32
	uses   float64
}

// pair are two blocks and how many demands have them next to each other.
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

// chainsOf joins blocks by pairs: the end of one chain to the beginning of another. The
// chains come by their first block.
func chainsOf(blocks int64, pairs []pair) []chain {
	next, first := make([]int32, blocks), make([]bool, blocks)
	for x := range next {
		next[x], first[x] = -1, true
	}
	for _, p := range pairs { // a < b in each, so that no chain closes
		if next[p.a] < 0 && first[p.b] {
			next[p.a], first[p.b] = p.b, false
		}
	}
	var chains []chain
	list := make([]int32, 0, blocks) // one array for all, cut into chains
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
