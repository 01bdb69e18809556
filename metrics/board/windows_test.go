package board

import (
	"cmp"
	"testing"
)

// Numbers in names order by size, decimals included. Other parts order by their letters. A longer
// name comes after its beginning.
func TestCompareNatural(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"window:2", "window:10", -1}, {"window:20", "window:2", 1}, {"window:2", "window:2", 0},
		{"lru@1.25x", "lru@1.5x", -1}, {"lru@1.5x", "lru@1.50x", -1}, {"lru@12x", "lru@1.5x", 1},
		{"lru", "lru@2x", -1}, {"lru@2x", "lru", 1}, {"", "a", -1}, {"a2", "ab", -1}, {"fifo", "lru", -1}, {"a9b", "a10a", -1},
	} {
		if got := cmp.Compare(compareNatural(c.a, c.b), 0); got != c.want {
			t.Errorf("%q and %q: %d, expected %d", c.a, c.b, got, c.want)
		}
		if got := cmp.Compare(compareNatural(c.b, c.a), 0); got != -c.want {
			t.Errorf("%q and %q: %d, expected %d", c.b, c.a, got, -c.want)
		}
	}
}
