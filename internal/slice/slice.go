// Package slice has functions on slices that the standard library lacks.
package slice

// Map returns f of each element, an empty slice for an empty list.
func Map[X, Y any](list []X, f func(X) Y) []Y {
	out := make([]Y, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}
