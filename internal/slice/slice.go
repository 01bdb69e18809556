// Package slice has functions on slices that the standard library lacks.
package slice

import (
	"math"
	"slices"
	"sort"
)

// Map returns f of each element, an empty slice for an empty list.
func Map[X, Y any](list []X, f func(X) Y) []Y {
	out := make([]Y, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}

// Sort is slices.SortFunc with one copy of the algorithm in the program, not one for each type. It is
// for short lists of structs.
func Sort[X any](list []X, compare func(a, b X) int) { sort.Sort(&sorter[X]{list, compare}) }

type sorter[X any] struct {
	list    []X
	compare func(a, b X) int
}

func (s *sorter[X]) Len() int           { return len(s.list) }
func (s *sorter[X]) Less(i, j int) bool { return s.compare(s.list[i], s.list[j]) < 0 }
func (s *sorter[X]) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }

// Partition returns the elements for which is holds, and the others.
func Partition[X any](list []X, is func(x *X) bool) (yes, no []X) {
	for i := range list {
		if is(&list[i]) {
			yes = append(yes, list[i])
		} else {
			no = append(no, list[i])
		}
	}
	return yes, no
}

// Distinct returns the different values of the elements, in order of their first appearance.
func Distinct[X any, V comparable](list []X, of func(x *X) V) (values []V) {
	seen := map[V]bool{}
	for i := range list {
		if v := of(&list[i]); !seen[v] {
			seen[v], values = true, append(values, v)
		}
	}
	return values
}

// Group returns the elements by a value of each. Groups are in order of their first element, and keep
// the order of theirs.
func Group[X any, V comparable](list []X, of func(x *X) V) (groups [][]X) {
	at := map[V]int{}
	for i := range list {
		v := of(&list[i])
		n, known := at[v]
		if !known {
			n = len(groups)
			at[v], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], list[i])
	}
	return groups
}

// Add appends the items that a list lacks, each once.
func Add[X comparable](list []X, items ...X) []X {
	for _, x := range items {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

// Indices returns 0 … n-1.
func Indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Quantile returns the smallest of some ascending values that at least a share of them, 0 to 1, does
// not exceed (nearest rank). It interpolates nothing, so it is one of the values. The list is not
// empty.
func Quantile(ascending []float64, share float64) float64 {
	return ascending[Rank(len(ascending), share)]
}

// Rank returns the index of the quantile of n ascending values.
func Rank(n int, share float64) int { return max(0, int(math.Ceil(share*float64(n)))-1) }

// Filter returns the elements for which keep holds, nil if there are none.
func Filter[X any](list []X, keep func(x X) bool) (kept []X) {
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// Runs returns the runs in which each element is like the one before.
func Runs[X any](list []X, alike func(a, b X) bool) (runs [][]X) {
	first := 0
	for i := range list {
		if i+1 == len(list) || !alike(list[i], list[i+1]) {
			runs, first = append(runs, list[first:i+1]), i+1
		}
	}
	return runs
}

// Count returns the number of elements for which is holds.
func Count[X any](list []X, is func(x X) bool) (n int) {
	for _, x := range list {
		if is(x) {
			n++
		}
	}
	return n
}

// Sum returns the sum of a value of each element, added in the order of the list.
func Sum[X any, N int | int32 | int64 | float32 | float64](list []X, of func(x X) N) (sum N) {
	for _, x := range list {
		sum += of(x)
	}
	return sum
}
