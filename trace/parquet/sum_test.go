package parquet

import (
	"math/rand/v2"
	"testing"
)

// sum gives the values of sumPlain, for differences of every width and sums that overflow.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 24))
	for draw := range 2000 {
		var got [groupValues]int32
		for i := range got {
			got[i] = int32(r.Uint32() >> r.IntN(32))
		}
		want := got
		least, last := int32(r.Uint32()), int32(r.Uint32())
		a, b := sum(&got, least, last), sumPlain(&want, least, last)
		if a != b || got != want {
			t.Fatalf("draw %d, least %d, last %d: %v and %d, expected %v and %d", draw, least, last, got, a, want, b)
		}
	}
}
