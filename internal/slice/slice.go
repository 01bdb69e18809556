// Package slice has functions on slices that the standard library lacks.
package slice

import "slices"

// Map returns f of each element, an empty slice for an empty list.
func Map[X, Y any](list []X, f func(X) Y) []Y {
	out := make([]Y, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}

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
	for i := range list {
		if v := of(&list[i]); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}
