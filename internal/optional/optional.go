// Package optional reads values that may be absent.
package optional

// Or returns the value that p points to, or another one if p is nil.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
