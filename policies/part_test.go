package policies

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/decimal"
)

// Part uses the share as it is written, and rounds down.
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

// A decimal and a size with 15 digits together differ from all others.
func TestPartOfManyDigits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		digits := 1 + r.IntN(14)
		scale, most := math.Pow10(digits), int64(math.Pow10(15-digits))
		whole := 1 + r.Int64N(min(most-1, Unbounded))
		text := fmt.Sprintf("0.%0*d", digits, r.Int64N(int64(scale)))
		if r.IntN(2) == 0 { // next to a whole part
			text = fmt.Sprintf("0.%0*d", digits, min(int64(scale)-1, int64(math.Round(float64(r.Int64N(whole))/float64(whole)*scale))))
		}
		share, err1 := strconv.ParseFloat(text, 64)
		exact, err2 := decimal.Parse(text)
		fatal.If(t, errors.Join(err1, err2))
		if got, want := Part(share, int(whole)), exact.Times(int(whole)); int64(got) != want {
			t.Fatalf("%s of %d is %d, want %d", text, whole, got, want)
		}
	}
}

// Part is exact for every share in thousandths and every size up to 300.
func TestPartIsExact(t *testing.T) {
	for thousandths := range 2001 {
		share := float64(thousandths) / 1000
		exact, err := decimal.Parse(formatFloat(share))
		fatal.If(t, err)
		for whole := range 300 {
			if got, want := Part(share, whole), exact.Times(whole); int64(got) != want {
				t.Fatalf("%v of %d is %d, want %d", share, whole, got, want)
			}
		}
	}
}
