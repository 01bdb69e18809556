package bucket

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A queue with a front pops the same ids as a queue without one.
func TestFront(t *testing.T) {
	for seed := uint64(0); seed < 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		ids, buckets := 1+r.IntN(80), 2+r.IntN(300)
		var f Front
		var q, twin Queue
		q.Reset(ids, buckets)
		twin.Reset(ids, buckets)
		f.Reset()
		for range 100 {
			var to, list, late []int32
			for _, x := range r.Perm(ids)[:r.IntN(ids+1)] {
				if x := int32(x); !twin.Has(x) {
					list = append(list, x)
					to = append(to, int32(1+r.IntN(buckets-1)))
				}
			}
			if len(list) > 0 && r.IntN(3) == 0 {
				late, list = list[:1], list[1:]
				to = to[1:]
			}
			twin.PushAll(to, list)
			f.Push(&q, to, list)
			q.Push(0, late...)
			twin.Push(0, late...)
			n := r.IntN(ids + 2)
			got := f.Pop(&q, n-len(late), []int32{})
			if len(got) > 0 && (len(got) >= n || q.Len() == 0) {
				t.Fatalf("seed %d: %d of %d ids let through, %d queued", seed, len(got), n, q.Len())
			}
			got = q.PopLowest(n-len(got), got)
			want := twin.PopLowest(n, []int32{})
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Fatalf("seed %d: popped %v, without a front %v", seed, got, want)
			}
		}
	}
}
