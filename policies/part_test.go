package policies

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/decimal"
)

// Parts are those of shares as they are written, rounded down.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		share       float64
		whole, want int
	}{{0.7, 90, 63}, {0.29, 100, 29}, {0.57, 100, 57}, {0.58, 50, 29}, {0.5, 3, 1}, {0.1, 30, 3}, {0.01, 99, 0}, {0.7, 89, 62}, {1, 17, 17}, {0, 17, 0}, {1e-3, 1000, 1}, {0.3333, 10000, 3333}, {1, Unbounded, Unbounded}, {2, 7, 14}, {0.5, 0, 0}, {1.0 / 3, 3, 1}} {
		if got := Part(c.share, c.whole); got != c.want {
			t.Errorf("%v of %d is %d, want %d", c.share, c.whole, got, c.want)
		}
	}
}

// Every share in thousandths is that of its decimal, at every size up to 300.
func TestPartIsExact(t *testing.T) {
	for thousandths := range 2001 {
		share := float64(thousandths) / 1000
		exact, err := decimal.Parse(formatFloat(share))
		if err != nil {
			t.Fatal(err)
		}
		for whole := range 300 {
			if got, want := Part(share, whole), exact.Times(whole); int64(got) != want {
				t.Fatalf("%v of %d is %d, want %d", share, whole, got, want)
			}
		}
	}
}
