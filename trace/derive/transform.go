package derive

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// transform selects the rows of in, cuts their lists and maps them to blocks.
func (d *derivation) transform(in, out *trace.Stream) {
	out.Reset(trace.StreamInfo{Key: in.Key, PromptLen: in.PromptLen})
	shorter := d.cut < d.from.Candidates
	ratio := int32(d.meta.BlockTokens / d.from.BlockTokens)
	for i, step := range in.Steps {
		if d.o.Steps != nil && (step < d.o.Steps.From || step >= d.o.Steps.To) {
			continue
		}
		row := rowOf(in, i, d.cut)
		if shorter {
			row.CoveredMass = nil
		}
		if ratio > 1 {
			row = toBlocks(row, ratio)
		}
		out.Append(row)
	}
	out.PromptMass, out.EmptyPromptMass = append(out.PromptMass[:0], in.PromptMass...), in.EmptyPromptMass
	if ratio > 1 {
		out.PromptMass = sums(out.PromptMass, int(ratio))
	}
}

// sums adds up every n values, in place.
func sums(values []float32, n int) []float32 {
	out := values[:0]
	for part := range slices.Chunk(values, n) {
		sum := slice.Sum(part, func(v float32) float32 { return v })
		out = append(out, sum)
	}
	return out
}

// rowOf returns row i of s with lists of at most m entries, without prompt masses. It shares memory
// with s.
func rowOf(s *trace.Stream, i, m int) trace.Row {
	row := s.Row(i)
	row.Indices, row.PromptMass = row.Indices[:min(m, len(row.Indices))], nil
	for _, values := range []*[]float32{&row.Scores, &row.AttentionMass} {
		*values = (*values)[:min(m, len(*values))]
	}
	return row
}

// toBlocks maps a row to blocks that are ratio times as large. Distinct blocks keep the order of
// their first entries. Each gets the score of its best entry and the sum of attention masses.
func toBlocks(row trace.Row, ratio int32) trace.Row {
	out := trace.Row{Step: row.Step, CoveredMass: row.CoveredMass}
	place := map[int32]int{}
	for j, x := range row.Indices {
		at, seen := place[x/ratio]
		if !seen {
			at = len(out.Indices)
			place[x/ratio] = at
			out.Indices = append(out.Indices, x/ratio)
			if row.Scores != nil {
				out.Scores = append(out.Scores, row.Scores[j])
			}
			if row.AttentionMass != nil {
				out.AttentionMass = append(out.AttentionMass, 0)
			}
		}
		if row.Scores != nil && row.Scores[j] > out.Scores[at] {
			out.Scores[at] = row.Scores[j]
		}
		if row.AttentionMass != nil { // rounded masses may sum to slightly more than 1
			out.AttentionMass[at] = min(1, out.AttentionMass[at]+row.AttentionMass[j])
		}
	}
	if row.Predicted != nil {
		out.Predicted = toBlocks(trace.Row{Indices: row.Predicted}, ratio).Indices
		if out.Predicted == nil {
			out.Predicted = []int32{} // recorded, but empty
		}
	}
	return out
}

// sortedSet returns the distinct values of all lists, ascending.
func sortedSet(lists ...[]int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...))))
}

// unionOf collects the heads of a layer.
type unionOf struct {
	heads []trace.Stream
	out   trace.Stream
}

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
		return fmt.Errorf("--heads union: %v has a prompt of %d tokens, %v one of %d, expected equal lengths", a.Key, a.PromptLen, b.Key, b.PromptLen)
	}
	for i := range max(a.Rows, b.Rows) {
		if i >= a.Rows || i >= b.Rows || a.Steps[i] != b.Steps[i] {
			return fmt.Errorf("--heads union: %v and %v record different steps (row %d), expected the same", a.Key, b.Key, i)
		}
	}
	return nil
}

// stream returns the union of the heads, valid until the next call. It then forgets the heads.
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
