package derive

import (
	"fmt"

	"github.com/kvreplay/kvreplay/trace"
)

// unionOf collects the heads of a layer.
type unionOf struct {
	heads []trace.Stream
	out   trace.Stream
}

// add takes over a copy of the next head.
func (u *unionOf) add(s *trace.Stream) error {
	var c trace.Stream
	c.Reset(trace.StreamInfo{Key: s.Key, PromptLen: s.PromptLen})
	for i := range s.Steps {
		c.Append(trace.Row{Step: s.Steps[i], Indices: s.List(i), Predicted: s.PredictedList(i)})
	}
	if len(u.heads) > 0 {
		if err := sameSteps(&u.heads[0], &c); err != nil {
			return err
		}
	}
	u.heads = append(u.heads, c)
	return nil
}

func sameSteps(a, b *trace.Stream) error {
	if a.PromptLen != b.PromptLen {
		return fmt.Errorf("--heads union: %v has a prompt of %d tokens, %v of %d", a.Key, a.PromptLen, b.Key, b.PromptLen)
	}
	for i := range max(a.Rows, b.Rows) {
		if i >= a.Rows || i >= b.Rows || a.Steps[i] != b.Steps[i] {
			return fmt.Errorf("--heads union: %v and %v record different steps (row %d), expected the same", a.Key, b.Key, i)
		}
	}
	return nil
}

// stream is the union of the heads; it is valid until the next call, and the heads are forgotten.
func (u *unionOf) stream() *trace.Stream {
	first := &u.heads[0]
	key := first.Key
	key.Head = trace.NoHead
	u.out.Reset(trace.StreamInfo{Key: key, PromptLen: first.PromptLen})
	lists, predicted := make([][]int32, len(u.heads)), make([][]int32, len(u.heads))
	for i, step := range first.Steps {
		for h := range u.heads {
			lists[h], predicted[h] = u.heads[h].List(i), u.heads[h].PredictedList(i)
		}
		row := trace.Row{Step: step, Indices: sortedSet(lists...)}
		if predicted[0] != nil {
			if row.Predicted = sortedSet(predicted...); row.Predicted == nil {
				row.Predicted = []int32{}
			}
		}
		u.out.Append(row)
	}
	u.heads = u.heads[:0]
	return &u.out
}
