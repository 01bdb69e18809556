package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/replay/transfer/extents"
	"github.com/kvreplay/kvreplay/trace"
)

// ssdFlags describe how the SSD holds KV.
type ssdFlags struct {
	extent      int64
	order, pack string
	layout      *pipeline.Layout // nil if no flag is given
}

// ssdOrders are the values of --ssd-order, by their Segments.
var ssdOrders = []string{transfer.ByStream: "stream", transfer.ByLayer: "layer", transfer.ByToken: "token"}

func (s *ssdFlags) define(fl *flagSet) {
	fl.Int64Var(&s.extent, "extent", 1, "read the SSD in whole extents of `BLOCKS` blocks, adjacent ones at once")
	fl.enum(&s.order, "ssd-order", ssdOrders[transfer.ByStream], "lay blocks out on the SSD by this `ORDER`: stream, layer or token", ssdOrders...)
	fl.StringVar(&s.pack, "pack", "", "pack each stream on the SSD as the prompt windows of this `TRACE` suggest")
	fl.positive("extent")
}

// set makes the layout that the flags describe.
func (s *ssdFlags) set(c *call) error {
	if !c.changed("extent") && !c.changed("ssd-order") && s.pack == "" {
		return nil
	}
	s.layout = &pipeline.Layout{Extent: s.extent, Order: transfer.Segments(slices.Index(ssdOrders, s.order))}
	if s.pack != "" {
		s.layout.Packing = func(m *replay.ProfileMeta) (pipeline.Packer, error) { return s.packer(c.Context(), m) }
	}
	if err := s.layout.Check(); err != nil {
		return errUsage{err}
	}
	return nil
}

// packer packs the streams of a profile by the windows of its trace.
func (s *ssdFlags) packer(ctx context.Context, m *replay.ProfileMeta) (pipeline.Packer, error) {
	f, err := trace.Open(s.pack)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest, err := f.Digest()
	if err != nil {
		return nil, err
	}
	if digest != m.TraceDigest {
		return nil, fmt.Errorf("--pack %s: the profile is of another trace, %s: name that one", s.pack, m.Trace)
	}
	packed, err := extents.Packing(ctx, f, m.TopK, max(1, m.BlockTokens), m.SharedHeads > 1)
	if err != nil {
		return nil, err
	}
	return func(request string, layer, head int32, blocks int64) ([]int32, error) {
		return packed(trace.Key{Request: request, Layer: layer, Head: head}, blocks)
	}, nil
}
