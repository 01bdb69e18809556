package importer

import (
	"cmp"
	"slices"
	"sort"

	"github.com/kvreplay/kvreplay/trace"
)

// arrange brings a list into the order of the trace: ascending where order means
// nothing; by score, then list order, where scores rank it. A list that a source
// states to be in rank order is trusted as it stands.
func (r *record) arrange(order string, byScore bool) {
	switch {
	case order == trace.OrderIndex && len(r.scores)+len(r.attention) == 0:
		slices.Sort(r.indices)
	case order == trace.OrderIndex:
		r.permute(func(a, b int) int { return cmp.Compare(r.indices[a], r.indices[b]) })
	case byScore && len(r.scores) > 0 && !falling(r.scores) && !anyNaN(r.scores):
		r.permute(func(a, b int) int { return cmp.Compare(r.scores[b], r.scores[a]) })
	}
}

func falling(scores []float32) bool {
	return sort.SliceIsSorted(scores, func(i, j int) bool { return scores[i] > scores[j] })
}

// anyNaN reports a NaN, which has no rank: the list is left for the rules to reject.
func anyNaN(scores []float32) bool {
	return slices.ContainsFunc(scores, func(v float32) bool { return v != v })
}

// permute sorts the list stably by compare of positions, with what is parallel to it.
func (r *record) permute(compare func(a, b int) int) {
	at := make([]int, len(r.indices))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, compare)
	r.indices = pick(r.indices, at)
	r.scores = pick(r.scores, at)
	r.attention = pick(r.attention, at)
}

func pick[T any](values []T, at []int) []T {
	if len(values) == 0 {
		return values
	}
	out := make([]T, len(at))
	for i, j := range at {
		out[i] = values[j]
	}
	return out
}
