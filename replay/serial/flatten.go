package serial

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// access is one demanded block.
type access struct {
	step, block int32
	newborn     bool // first access of a block that left the local window during the replay
}

// flatten appends a stream's accesses. They come from every row that the replay by steps replays,
// windows included. Each row gives the first K blocks of its list in order, without blocks pinned
// by a sink or the local window.
func flatten(dst []access, s *trace.Stream, r *result.Row) []access {
	w, err := replay.ParseWarmup(r.Warmup)
	if err != nil {
		panic(err) // the warm-up of a row always parses
	}
	first := s.Windows - w.Windows
	seen := map[int32]bool{}
	for i := first; i < s.Rows; i++ {
		list := s.List(i)
		for _, x := range list[:min(r.TopK, len(list))] {
			begin, end := int(x)*r.BlockTokens, (int(x)+1)*r.BlockTokens
			if begin < r.Sink || end > s.SeqLen(i)-r.Local {
				continue
			}
			dst = append(dst, access{s.Steps[i], x, end >= s.SeqLen(first)-r.Local && !seen[x]})
			seen[x] = true
		}
	}
	return dst
}

// eachStream reads the streams with rows in t, in the file's order.
func eachStream(ctx context.Context, f *trace.File, t *tally, do func(*trace.Stream, []result.Row) error) error {
	r := f.NewReader(0)
	defer r.Close()
	var s trace.Stream
	for i, info := range f.Streams() {
		rows := t.byStream[info.Key]
		if rows == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Read(i, &s); err != nil {
			return err
		}
		if err := do(&s, rows); err != nil {
			return err
		}
	}
	return f.Unchanged(t.digest)
}

// Flatten writes the accesses as CSV for other simulators. The columns are the stream's number in
// the order of the file, the step and the block. Negative steps are windows, which warm up a cache
// and are not counted. Each stream has a cache of its own. Flatten ignores o.Policies.
func Flatten(ctx context.Context, w io.Writer, f *trace.File, o Options) error {
	o.Policies = lru()
	if err := o.Validate(); err != nil {
		return err
	}
	o.Capacities = o.Capacities[:min(1, len(o.Capacities))]
	bySteps, _, err := o.steps(f)
	if err != nil {
		return err
	}
	steps, err := run(ctx, f, bySteps)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "stream,step,block")
	number := 0
	err = eachStream(ctx, f, newTally(steps.Rows), func(s *trace.Stream, rows []result.Row) error {
		for _, a := range flatten(nil, s, &rows[0]) {
			fmt.Fprintf(out, "%d,%d,%d\n", number, a.step, a.block)
		}
		number++
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
