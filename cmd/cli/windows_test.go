package cli

import (
	"strings"
	"testing"
)

func TestWindowRange(t *testing.T) {
	for name, want := range map[string]string{
		"window:1-4": "window:1 window:2 window:3 window:4", "window:3-3": "window:3", "window:2": "window:2",
		"window": "window", "lru": "lru", "s3-fifo": "s3-fifo",
	} {
		if got, err := windowRange(name); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"window:4-1", "window:-1", "window:1-", "window:a-b", "window:0-100000"} {
		if got, err := windowRange(name); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}
