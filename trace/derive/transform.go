package derive

import (
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// transform selects the rows of in, cuts their lists and maps them to blocks.
func (p *plan) transform(in, out *trace.Stream) {
	out.Reset(trace.StreamInfo{Key: in.Key, PromptLen: in.PromptLen})
	shorter := p.cut < p.source.Candidates
	ratio := int32(p.meta.BlockTokens / p.source.BlockTokens)
	for i, step := range in.Steps {
		if !p.o.Steps.has(step) {
			continue
		}
		row := rowOf(in, i, p.cut)
		if shorter {
			row.CoveredMass = nil
		}
		if ratio > 1 {
			row = toBlocks(row, ratio, p.meta.Order == trace.OrderIndex)
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
		var sum float32
		for _, v := range part {
			sum += v
		}
		out = append(out, sum)
	}
	return out
}

// rowOf is row i of s with lists of at most m entries; it shares memory with s.
func rowOf(s *trace.Stream, i, m int) trace.Row {
	m = min(m, len(s.List(i)))
	row := trace.Row{Step: s.Steps[i], Indices: s.List(i)[:m], Predicted: s.PredictedList(i)}
	if scores := s.ScoreList(i); scores != nil {
		row.Scores = scores[:m]
	}
	if len(s.CoveredMass) > 0 {
		row.CoveredMass = &s.CoveredMass[i]
	}
	if len(s.AttentionMass) > 0 {
		row.AttentionMass = s.AttentionMass[s.Offsets[i]:s.Offsets[i+1]][:m]
	}
	return row
}

// toBlocks maps a row to blocks ratio times as large: distinct blocks in order of
// their best entry, whose score they take; their attention masses add up.
func toBlocks(row trace.Row, ratio int32, ascending bool) trace.Row {
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
		if row.AttentionMass != nil { // rounded shares may add up to a little over 1
			out.AttentionMass[at] = min(1, out.AttentionMass[at]+row.AttentionMass[j])
		}
	}
	if ascending && row.Scores != nil { // a block's score is its best entry's, wherever it stands
		bestScores(row, ratio, &out, place)
	}
	out.Predicted = blockSet(row.Predicted, ratio)
	return out
}

// bestScores sets the scores of blocks whose entries come in no order of rank.
func bestScores(row trace.Row, ratio int32, out *trace.Row, place map[int32]int) {
	for j, x := range row.Indices {
		at := place[x/ratio]
		out.Scores[at] = max(out.Scores[at], row.Scores[j])
	}
}

// blockSet maps a list to distinct blocks in order of first appearance; nil stays nil.
func blockSet(list []int32, ratio int32) []int32 {
	if list == nil {
		return nil
	}
	seen := map[int32]bool{}
	out := []int32{}
	for _, x := range list {
		if !seen[x/ratio] {
			seen[x/ratio] = true
			out = append(out, x/ratio)
		}
	}
	return out
}

// sortedSet is the distinct values of all lists, ascending.
func sortedSet(lists ...[]int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...))))
}
