// Package extents counts the reads that an SSD needs for the demand of a trace, for different
// orders of blocks on the drive. It applies the placement pass of package transfer to real
// selections.
package extents

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/trace"
)

// Options select the counts.
type Options struct {
	TopK    int     // K of the demand, 0 for the trace's
	Extents []int64 // blocks per extent, nil for 1, 4 and 16
	// History is the number of decode steps, after the windows, that the packing learns from. No
	// order counts them.
	History int
}

// mostExtent is the largest extent in blocks. The bytes of a step's reads then fit into 63 bits.
const mostExtent = 1 << 20

// Validate checks the numbers with fixed bounds.
func (o *Options) Validate() error {
	if o.History < 0 {
		return fmt.Errorf("history %d, expected at least 0", o.History)
	}
	for _, extent := range o.Extents {
		if extent < 1 || extent > mostExtent {
			return fmt.Errorf("an extent of %d blocks, expected at least 1 and at most %d", extent, mostExtent)
		}
	}
	return nil
}

// Row is one order on the drive with one extent, over all streams and counted steps.
type Row struct {
	Order   string `json:"order"`
	Extent  int64  `json:"extent_blocks"`
	Steps   int64  `json:"steps"`  // steps summed over streams
	Demand  int64  `json:"demand"` // demanded blocks without pins
	Reads   int64  `json:"reads"`
	Blocks  int64  `json:"blocks"` // read blocks, in whole extents
	Learned int64  `json:"learned_steps"`
}

// orders are the compared orders: by token, by layer, by stream, and by stream packed.
var orders = []struct {
	name     string
	segments transfer.Segments
	packed   bool
}{{"token", transfer.ByToken, false}, {"layer", transfer.ByLayer, false}, {"stream", transfer.ByStream, false}, {"stream, packed", transfer.ByStream, true}}

// File surveys a trace with one stream in memory at a time. If ctx ends, it stops between streams.
// The demand is the whole selection without pinned tokens, as in a system that keeps nothing. So
// the reads show the effect of the placement alone.
func File(ctx context.Context, f *trace.File, o Options) ([]Row, error) {
	s, err := newSurvey(f, o)
	if err != nil {
		return nil, fmt.Errorf("extents of %s: %w", f.Path(), err)
	}
	return s.rows, each(ctx, f, "extents of", s.stream)
}

// each calls use for every stream of a trace. Errors begin with doing and the path.
func each(ctx context.Context, f *trace.File, doing string, use func(*trace.Stream) error) error {
	reader := f.NewReader(0)
	defer reader.Close()
	var stream trace.Stream
	for i := range f.Streams() {
		err := ctx.Err()
		if err == nil {
			if err := reader.Read(i, &stream); err != nil {
				return err // it names the path
			}
			err = use(&stream)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", doing, f.Path(), err)
		}
	}
	return nil
}

type survey struct {
	meta          *trace.Meta
	topK, history int
	extents       []int64
	layers, heads []int32
	rows          []Row // by order, then extent
	places        []int64
}

// Packing learns the packed order of every stream from the prompt windows of a trace. k is the K of
// the demand. Blocks have unit tokens. If shared is set, the heads of a layer demand blocks
// together. The returned function packs a number of blocks of a stream.
func Packing(ctx context.Context, f *trace.File, k, unit int, shared bool) (func(key trace.Key, blocks int64) ([]int32, error), error) {
	s, err := newSurvey(f, Options{TopK: k, Extents: []int64{1}})
	if err != nil {
		return nil, fmt.Errorf("packing by %s: %w", f.Path(), err)
	}
	learned := map[trace.Key][][]int32{}
	err = each(ctx, f, "packing by", func(stream *trace.Stream) error {
		key := stream.Key
		if shared {
			key.Head = trace.NoHead
		}
		all := learned[key]
		for w := range stream.Windows {
			blocks := s.demand(stream, w)
			for i, x := range blocks {
				blocks[i] = int32(int(x) * s.meta.BlockTokens / unit)
			}
			if w == len(all) {
				all = append(all, nil)
			}
			all[w] = append(all[w], blocks...)
			slices.Sort(all[w])
			all[w] = slices.Compact(all[w])
		}
		learned[key] = all
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func(key trace.Key, blocks int64) ([]int32, error) {
		demands, ok := learned[key]
		if !ok {
			return nil, fmt.Errorf("%s has no %s", f.Path(), key)
		}
		return transfer.Pack(blocks, demands), nil
	}, nil
}

func newSurvey(f *trace.File, o Options) (*survey, error) {
	s := &survey{meta: f.Meta(), topK: o.TopK, history: o.History, extents: o.Extents}
	if s.topK == 0 {
		s.topK = s.meta.TopK
	}
	switch {
	case s.topK < 1 || s.topK > s.meta.Candidates:
		return nil, fmt.Errorf("topk %d, expected 1 to M, %d entries", s.topK, s.meta.Candidates)
	case s.meta.Order == trace.OrderIndex && s.topK != s.meta.TopK:
		return nil, fmt.Errorf("topk %d: the trace has no ranks (order=index), expected its K, %d", s.topK, s.meta.TopK)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if s.extents == nil {
		s.extents = []int64{1, 4, 16}
	}
	most := 0 // decode steps of the longest stream
	for i := range f.Streams() {
		info := &f.Streams()[i]
		most = max(most, info.Rows-info.Windows)
		if info.Windows+s.history == 0 {
			return nil, fmt.Errorf("request %q layer %d has no prompt windows to learn a packing from: set --history to N decode steps", info.Request, info.Layer)
		}
		s.layers, s.heads = append(s.layers, info.Layer), append(s.heads, info.Head)
	}
	if s.history >= most {
		return nil, fmt.Errorf("a history of %d decode steps leaves none to count: expected fewer than the trace's %d", s.history, most)
	}
	slices.Sort(s.layers)
	slices.Sort(s.heads)
	s.layers, s.heads = slices.Compact(s.layers), slices.Compact(s.heads)
	for _, order := range orders {
		for _, extent := range s.extents {
			s.rows = append(s.rows, Row{Order: order.name, Extent: extent})
		}
	}
	return s, nil
}

// stream counts one stream in all orders.
func (s *survey) stream(st *trace.Stream) error {
	demands := make([][]int32, st.Rows)
	for i := range demands {
		demands[i] = s.demand(st, i)
	}
	learned := min(st.Windows+s.history, st.Rows)
	blocks := int64(s.meta.Blocks(st.MaxSeqLen()))
	layer, head := int64(rank(s.layers, st.Layer)), int64(rank(s.heads, st.Head))
	for o, order := range orders {
		p := transfer.NewPlacement(order.segments, int64(len(s.layers)), int64(len(s.heads)), blocks)
		if order.packed {
			if err := p.Order(layer, head, transfer.Pack(blocks, demands[:learned])); err != nil {
				return err
			}
		}
		for e, extent := range s.extents {
			row := &s.rows[o*len(s.extents)+e]
			row.Learned += int64(learned)
			for _, demand := range demands[learned:] {
				s.places = p.Places(layer, head, demand, s.places[:0])
				reads, blocksRead := transfer.Extents(s.places, extent)
				row.Steps, row.Demand, row.Reads, row.Blocks = row.Steps+1, row.Demand+int64(len(demand)), row.Reads+reads, row.Blocks+blocksRead
			}
		}
	}
	return nil
}

// demand returns the first K blocks of row i without the pinned ones, ascending.
func (s *survey) demand(st *trace.Stream, i int) []int32 {
	sink, local, _ := s.meta.Pins()
	list := st.List(i)
	var demand []int32
	for _, x := range list[:min(s.topK, len(list))] {
		if first := int(x) * s.meta.BlockTokens; first >= sink && first+s.meta.BlockTokens <= st.SeqLen(i)-local {
			demand = append(demand, x)
		}
	}
	slices.Sort(demand)
	return demand
}

func rank(sorted []int32, v int32) int {
	i, _ := slices.BinarySearch(sorted, v)
	return i
}
