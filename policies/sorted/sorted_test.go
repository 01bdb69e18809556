package sorted

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// item is an id in the twin: a sorted slice. Values are told apart by fine, keys are
// rounded to coarse values: odd where that lost something.
type item struct {
	x      int32
	bucket int32
	fine   int
}

func (it item) key() uint64 {
	key := uint64(it.fine/3) << 1
	if it.fine%3 != 0 {
		key |= 1
	}
	return key
}

// The queue against a slice that is kept sorted, stably.
func TestAgainstSortedSlice(t *testing.T) {
	var q Queue
	for seed := uint64(0); seed < 500; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		ids, buckets, fine := 1+r.IntN(60), 1+r.IntN(9000), 2+r.IntN(40)
		q.Reset(buckets)
		slots := make([]int32, ids)
		held := make([]item, ids) // by id: what Order looks at
		q.Order = func(x, y int32) int { return cmp.Compare(held[x].fine, held[y].fine) }
		var twin []item
		find := func(x int32) int { return slices.IndexFunc(twin, func(it item) bool { return it.x == x }) }
		for range 400 {
			x := int32(r.IntN(ids))
			at := find(x)
			if q.Len() != len(twin) {
				t.Fatalf("seed %d: len %d; twin %d", seed, q.Len(), len(twin))
			}
			switch op := r.IntN(5); {
			case op < 2 && at < 0:
				v := r.IntN(fine)
				held[x] = item{x, int32(v * buckets / fine), v}
				slots[x] = q.Push(Place{held[x].bucket, held[x].key()}, x)
				twin = append(twin, held[x])
				slices.SortStableFunc(twin, func(a, b item) int { return cmp.Compare(a.fine, b.fine) })
			case op < 2 && r.IntN(2) == 0:
				q.Remove(slots[x])
				twin = slices.Delete(twin, at, at+1)
			case op == 3:
				want := int32(-1)
				if len(twin) > 0 {
					want = twin[0].x
				}
				got := q.PopLowest()
				if got != want {
					t.Fatalf("seed %d: popped %d, twin %d", seed, got, want)
				}
				if want >= 0 && r.IntN(2) == 0 { // and back, before everything
					slots[want] = q.PushFront(Place{held[want].bucket, held[want].key()}, want)
				} else if want >= 0 {
					twin = twin[1:]
				}
			case op == 4 && r.IntN(4) == 0:
				n := r.IntN(5)
				got := q.Pop(n, nil)
				if len(got) != min(n, len(twin)) {
					t.Fatalf("seed %d: popped %d of %d", seed, len(got), n)
				}
				for _, y := range got {
					if i := find(y); i < 0 || i >= len(got) {
						t.Fatalf("seed %d: popped %v, twin %v", seed, got, twin)
					}
				}
				twin = twin[len(got):]
			}
		}
	}
}
