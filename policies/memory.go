package policies

// Fill returns a slice of n values v in s's memory where it is large enough: the way
// policies keep their arrays from stream to stream.
func Fill[T any](s []T, n int, v T) []T {
	if cap(s) < n {
		s = make([]T, n)
	}
	s = s[:n]
	for i := range s {
		s[i] = v
	}
	return s
}
