package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kvreplay/kvreplay/trace"
)

// WriteClusters writes the clusters of every stream of a trace as a file of clusters,
// streams in the trace's order, clusters numbered by their first token. They are read off
// the lists, as `--clusters lists` does; tokens that are alone are in none. A cancelled
// context ends it between two streams, with the context's error.
func WriteClusters(ctx context.Context, w io.Writer, f *trace.File) error {
	if err := listsClusters(f.Meta()); err != nil {
		return fmt.Errorf("%s: %w", f.Path(), err)
	}
	r := f.NewReader(0)
	defer r.Close()
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	var s trace.Stream
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Read(i, &s); err != nil {
			return err
		}
		row := clusterRow{Request: &s.Request, Layer: &s.Layer, Clusters: numbered(chains(&s, s.MaxSeqLen(), f.Meta().Candidates))}
		if s.Head != trace.NoHead {
			row.Head = &s.Head
		}
		if err := lines.Encode(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// listsClusters reports whether a trace's selector ranks clusters.
func listsClusters(m *trace.Meta) error {
	if m.Order != trace.OrderRank || m.BlockTokens != 1 || m.Selector != "retroinfer" && m.Selector != "kvdrive" {
		return fmt.Errorf("clusters from lists need a selector that ranks clusters of tokens (retroinfer, kvdrive), the trace's is %q", m.Selector)
	}
	return nil
}

// numbered renames clusters, which are named by their first tokens: 0, 1, … in that order,
// -1 for those of one token.
func numbered(of []int32) []int32 {
	size, number := make([]int32, len(of)), make([]int32, len(of))
	for _, first := range of {
		size[first]++
	}
	next := int32(0)
	for t, first := range of {
		switch {
		case size[first] == 1:
			number[t] = -1
		case int(first) == t:
			number[t] = next
			next++
		default:
			number[t] = number[first]
		}
	}
	return number
}
