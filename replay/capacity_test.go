package replay

import (
	"strings"
	"testing"
)

// A capacity that cannot be meant names its bound.
func TestCapacityBounds(t *testing.T) {
	for text, want := range map[string]string{
		"1e30x":                   `capacity "1e30x": expected at most 1073741824`,
		"1e10ctx":                 "expected at most 1073741824",
		"1073741825":              "expected at most 1073741824",
		"99999999TiB":             `capacity "99999999TiB": expected less than 1 EiB a request`,
		"1EiB":                    "expected less than 1 EiB",
		"1e3":                     `capacity "1e3": entries are a whole number, as in 6400`,
		"1.5":                     "entries are a whole number",
		"1x+1e30x@4":              `capacity "1e30x": expected at most`,
		"1e400x":                  "expected a multiple of K",
		"99999999999999999999999": "expected at most 1073741824",
	} {
		if _, err := ParseCapacity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"1073741824", "1073741824x", "2ctx", "1023PiB"} {
		if _, err := ParseCapacity(text); err != nil {
			t.Error(err)
		}
	}
}
