package storage

import "time"

// SetLimits changes the time limits and the number of attempts at requests. The returned function
// restores them.
func SetLimits(silence, answer time.Duration, n int) (restore func()) {
	a, b, c := stall, patience, retries
	stall, patience, retries = silence, answer, n
	return func() { stall, patience, retries = a, b, c }
}
