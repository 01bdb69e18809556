package importer

import (
	"cmp"
	"slices"
	"sort"
)

// rank brings a list into the order of its scores, then list order, at the precision that
// the source has them in.
func (r *record) rank() {
	if len(r.wide) > 0 {
		rankBy(r, r.wide)
		return
	}
	rankBy(r, r.scores)
}

// rankBy sorts the list by falling scores, unless it is. A NaN has no rank: such a list is
// left for the rules to reject.
func rankBy[T float32 | float64](r *record, scores []T) {
	if !falling(scores) && !slices.ContainsFunc(scores, func(v T) bool { return v != v }) {
		r.permute(func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	}
}

// falling reports whether scores never rise along a list.
func falling[T float32 | float64](scores []T) bool {
	return sort.SliceIsSorted(scores, func(i, j int) bool { return scores[i] > scores[j] })
}

// ascend sorts a list whose order means nothing.
func (r *record) ascend() {
	if len(r.scores)+len(r.attention) == 0 {
		slices.Sort(r.indices)
		return
	}
	r.permute(func(a, b int) int { return cmp.Compare(r.indices[a], r.indices[b]) })
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
