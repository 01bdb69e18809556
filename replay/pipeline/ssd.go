package pipeline

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Layout states where the blocks of a request lie on the SSD. A layer reads the blocks of all its
// heads together, in whole extents. Adjacent extents are one read.
type Layout struct {
	Extent int64 // blocks, at least 1
	Order  transfer.Segments
	// Packing returns the Packer of a profile's trace. If it is nil, blocks lie by index.
	Packing func(m *replay.ProfileMeta) (Packer, error)
}

// Packer returns the order of a stream's blocks on the drive, as transfer.Pack does. head is -1 if the
// heads of a layer share their selection.
type Packer func(request string, layer, head int32, blocks int64) ([]int32, error)

// mostExtent is the largest extent in blocks.
const mostExtent = 1 << 20

// Check refuses extents out of bounds, and a packing in an order that has no place for it.
func (l *Layout) Check() error {
	switch {
	case l.Extent < 1 || l.Extent > mostExtent:
		return fmt.Errorf("an extent of %d blocks, expected 1 to %d", l.Extent, mostExtent)
	case l.Packing != nil && l.Order != transfer.ByStream:
		return errors.New("a packed order needs the blocks of a stream side by side: choose order stream")
	}
	return nil
}

// placed are the missed blocks of the tier below, by stream and step. It counts their reads.
type placed struct {
	*Layout
	pack   Packer // nil for the order by index
	missed map[streamKey][][]int32
}

// count sets the reads of each step of a profiled layer.
func (p *placed) count(g *gatherer, request string, at int, heads []int32, steps []Counts) error {
	meta, blocks := &g.profile.Meta, int64(0)
	for i := range steps {
		blocks = max(blocks, (steps[i].SeqLen+int64(max(1, meta.BlockTokens))-1)/int64(max(1, meta.BlockTokens)))
	}
	layer, places := g.profile.Layers[at], []int64(nil)
	where := transfer.NewPlacement(p.Order, int64(len(g.profile.Layers)), int64(len(heads)), blocks)
	for h, head := range heads {
		if p.pack == nil {
			break
		}
		order, err := p.pack(request, layer, head, blocks)
		if err == nil {
			err = where.Order(int64(at), int64(h), order)
		}
		if err != nil {
			return fmt.Errorf("request %s: %w", request, err)
		}
	}
	for i := range steps {
		places = places[:0]
		for h, head := range heads {
			missed := p.missed[streamKey{request, layer, 1, head}][i]
			for _, x := range missed {
				if x < 0 || int64(x) >= blocks {
					return fmt.Errorf("request %s, layer %d, step %d: missed block %d of a context of %d blocks", request, layer, i, x, blocks)
				}
			}
			places = where.Places(int64(at), int64(h), missed, places)
		}
		steps[i].SSDReads, steps[i].SSDBlocks = transfer.Extents(places, p.Extent)
	}
	return nil
}

// pageBytes is the size of a page of the host's memory, which a fault reads at least.
const pageBytes = 4 << 10

// reads returns the reads from the SSD of the blocks that miss in host memory. blocks are those
// blocks. A layout reads whole extents, and a mapped file whole pages.
func (r *runner) reads(t *sums, blocks pieces) pieces {
	if r.profile.Placed {
		meta := &r.profile.Meta
		block := int64(max(1, meta.BlockTokens) * max(1, meta.SharedHeads))
		read := r.pieces(t, t.SSDReads, t.SSDReads, t.SSDBlocks*block)
		blocks.count, blocks.bytes = read.count, read.bytes
	}
	if r.Mapped && blocks.count > 0 {
		blocks.bytes = blocks.count * pageBytes * math.Ceil(blocks.bytes/blocks.count/pageBytes*(1-1e-12))
	}
	return blocks
}
