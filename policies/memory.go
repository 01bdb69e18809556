package policies

// Fill returns a slice of n values v, in s's memory if it is large enough. Policies keep their
// arrays from stream to stream with it.
func Fill[T any](s []T, n int, v T) []T {
	if cap(s) < n {
		s = make([]T, n)
	}
	s = s[:n]
	for i := range min(n, stretch) {
		s[i] = v
	}
	for i := stretch; i < n; i += stretch { // copy uses the machine's widest moves
		copy(s[i:], s[:stretch])
	}
	return s
}

// stretch is the number of values that Fill writes one by one.
const stretch = 256
