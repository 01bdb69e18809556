package bucket

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The queue against slices of ids, one a bucket.
func TestAgainstSlices(t *testing.T) {
	var q Queue
	for seed := uint64(0); seed < 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		ids, buckets := 1+r.IntN(80), 1+r.IntN(300)
		q.Reset(ids, buckets)
		twin := make([][]int32, buckets)
		where := map[int32]int{}
		take := func(b int, x int32) {
			twin[b] = slices.DeleteFunc(twin[b], func(y int32) bool { return y == x })
			delete(where, x)
		}
		for range 400 {
			x := int32(r.IntN(ids))
			b, held := where[x]
			if q.Has(x) != held || q.Len() != len(where) {
				t.Fatalf("seed %d: has %v, len %d; twin %v, %d", seed, q.Has(x), q.Len(), held, len(where))
			}
			switch r.IntN(4) {
			case 0, 1:
				if !held {
					b = r.IntN(buckets)
					q.Push(int32(b), x)
					twin[b], where[x] = append(twin[b], x), b
				} else if r.IntN(2) == 0 {
					q.Remove(x)
					take(b, x)
				}
			case 2, 3:
				lowest := r.IntN(2) == 0
				want, from := int32(-1), -1
				for b := range twin {
					if len(twin[b]) > 0 && (from < 0 || !lowest) {
						want, from = twin[b][0], b
					}
				}
				got := q.PopHighest
				if lowest {
					got = q.PopLowest
				}
				if y := got(); y != want {
					t.Fatalf("seed %d: popped %d, twin %d (lowest %v)", seed, y, want, lowest)
				}
				if from >= 0 {
					take(from, want)
				}
			}
		}
	}
}
