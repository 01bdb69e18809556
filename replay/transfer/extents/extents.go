// Package extents asks of a trace what an SSD would have to read for its demand, in
// different orders on the drive: the placement pass of package transfer on real selections.
package extents

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/trace"
)

// Options choose what is counted.
type Options struct {
	TopK    int     // of the demand; 0 is the trace's
	Extents []int64 // blocks of an extent; nil is 1, 4 and 16
	// History is how many decode steps besides the prompt's windows the packing learns from;
	// they are not counted, in no order.
	History int
}

// mostExtent is the largest extent: what a step reads has then 63 bits, in bytes too.
const mostExtent = 1 << 20

// Validate checks the numbers that have bounds of their own, whatever the trace.
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
	Steps   int64  `json:"steps"`  // of streams
	Demand  int64  `json:"demand"` // blocks demanded, pins left out
	Reads   int64  `json:"reads"`
	Blocks  int64  `json:"blocks"` // read, whole extents
	Learned int64  `json:"learned_steps"`
}

// orders are what is compared: by token, by layer, by stream, and that packed.
var orders = []struct {
	name     string
	segments transfer.Segments
	packed   bool
}{{"token", transfer.ByToken, false}, {"layer", transfer.ByLayer, false}, {"stream", transfer.ByStream, false}, {"stream, packed", transfer.ByStream, true}}

// File surveys a trace, a stream in memory at a time; ctx stops it between
// streams. Demand is all that a step selects beyond the pinned tokens, so that reads are
// those of a system that keeps nothing: the placement's part alone.
func File(ctx context.Context, f *trace.File, o Options) ([]Row, error) {
	s, err := newSurvey(f, o)
	if err != nil {
		return nil, fmt.Errorf("extents of %s: %w", f.Path(), err)
	}
	reader := f.NewReader(0)
	defer reader.Close()
	var stream trace.Stream
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("extents of %s: %w", f.Path(), err)
		}
		if err := reader.Read(i, &stream); err != nil {
			return nil, err
		}
		if err := s.stream(&stream); err != nil {
			return nil, fmt.Errorf("extents of %s: %w", f.Path(), err)
		}
	}
	return s.rows, nil
}

type survey struct {
	meta          *trace.Meta
	topK, history int
	extents       []int64
	layers, heads []int32
	rows          []Row // by order, then extent
	places        []int64
}

func newSurvey(f *trace.File, o Options) (*survey, error) {
	s := &survey{meta: f.Meta(), topK: o.TopK, history: o.History, extents: o.Extents}
	if s.topK == 0 {
		s.topK = s.meta.TopK
	}
	switch {
	case s.topK < 1 || s.topK > s.meta.Candidates:
		return nil, fmt.Errorf("topk %d, the lists have M = %d", s.topK, s.meta.Candidates)
	case s.meta.Order == trace.OrderIndex && s.topK != s.meta.TopK:
		return nil, fmt.Errorf("topk %d: order=index gives no ranks, only K = %d can be taken", s.topK, s.meta.TopK)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if s.extents == nil {
		s.extents = []int64{1, 4, 16}
	}
	most := 0 // decode steps of a stream
	for i := range f.Streams() {
		info := &f.Streams()[i]
		most = max(most, info.Rows-info.Windows)
		if info.Windows+s.history == 0 {
			return nil, fmt.Errorf("request %q layer %d has no prompt windows to learn a packing from: give a history of decode steps", info.Request, info.Layer)
		}
		s.layers, s.heads = append(s.layers, info.Layer), append(s.heads, info.Head)
	}
	if s.history >= most {
		return nil, fmt.Errorf("a history of %d decode steps leaves none to count, the trace has %d", s.history, most)
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

// demand is row i's first K blocks without the pinned ones, ascending.
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
