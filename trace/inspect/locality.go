package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// distinct lists the values of a key, ascending, without NoHead.
func distinct(f *trace.File, of func(*trace.StreamInfo) int32) []int32 {
	values := []int32{}
	for i := range f.Streams() {
		if v := of(&f.Streams()[i]); v != trace.NoHead {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// locality measures stream after stream.
func (r *Report) locality(ctx context.Context, f *trace.File, layers bool) error {
	reader := f.NewReader(0)
	defer reader.Close()
	analyzer := locality.New(f.Meta(), r.TopK)
	var s trace.Stream
	var all locality.Counts
	byLayer := map[int32]*locality.Counts{}
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("inspect %s: %w", r.Path, err)
		}
		if err := reader.Read(i, &s); err != nil {
			return err
		}
		for j := range s.Steps {
			r.List.add(int64(len(s.List(j))), i == 0 && j == 0)
		}
		c := analyzer.Stream(&s)
		all.Add(c)
		if layers {
			if byLayer[s.Layer] == nil {
				byLayer[s.Layer] = new(locality.Counts)
			}
			byLayer[s.Layer].Add(c)
		}
	}
	r.Locality.Summary = all.Summary()
	if layers {
		for _, l := range r.Layers {
			r.Locality.ByLayer = append(r.Locality.ByLayer, Layer{l, byLayer[l].Summary()})
		}
	}
	return nil
}
