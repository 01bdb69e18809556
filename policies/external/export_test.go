package external

import "time"

// SetGrace changes the time in which idle children may end by themselves. The returned function restores it.
func SetGrace(grace time.Duration) (restore func()) {
	before := graceAtEnd
	graceAtEnd = grace
	return func() { graceAtEnd = before }
}
