package bucket

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// twin is the queue as slices of ids, one per bucket.
type twin struct {
	buckets [][]int32
	where   map[int32]int32
}

func (w *twin) push(b, x int32) {
	b = min(b, int32(len(w.buckets)-1))
	w.buckets[b], w.where[x] = append(w.buckets[b], x), b
}

func (w *twin) remove(x int32) {
	b := w.where[x]
	w.buckets[b] = slices.DeleteFunc(w.buckets[b], func(y int32) bool { return y == x })
	delete(w.where, x)
}

// pop takes the first id of the lowest bucket in use, or of the highest, n times.
func (w *twin) pop(n int, highest bool) (ids []int32) {
	order := slices.Clone(w.buckets)
	if highest {
		slices.Reverse(order)
	}
	ids = slices.Concat(order...)
	ids = ids[:min(max(n, 0), len(ids))]
	for _, x := range ids {
		w.remove(x)
	}
	return ids
}

// some draws ids that are held, or that are not.
func (w *twin) some(r *rand.Rand, ids int, held bool) (list []int32) {
	for _, x := range r.Perm(ids)[:r.IntN(ids+1)] {
		if _, ok := w.where[int32(x)]; ok == held {
			list = append(list, int32(x))
		}
	}
	return list
}

func TestAgainstSlices(t *testing.T) {
	var q Queue
	for seed := uint64(0); seed < 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		ids, buckets := 1+r.IntN(80), 1+r.IntN(300)
		q.Reset(ids, buckets)
		w := &twin{make([][]int32, buckets), map[int32]int32{}}
		for range 200 {
			if seed%2 == 0 {
				q.limit = r.IntN(500) // closes up early
			}
			switch r.IntN(7) {
			case 0:
				b, list := int32(r.IntN(buckets)), w.some(r, ids, false)
				q.Push(b, list...)
				for _, x := range list {
					w.push(b, x)
				}
			case 1:
				of, list := make([]int32, ids), w.some(r, ids, false)
				for _, x := range list {
					of[x] = int32(r.IntN(buckets))
					w.push(of[x], x)
				}
				q.PushBy(of, list)
			case 2:
				list, to := w.some(r, ids, false), []int32{}
				for _, x := range list {
					to = append(to, int32(r.IntN(buckets+3)))
					w.push(to[len(to)-1], x)
				}
				q.PushAll(to, list)
			case 4:
				w.checkOrder(t, seed, &q, r, ids)
			case 3:
				list := w.some(r, ids, true)
				q.Remove(list...)
				for _, x := range list {
					w.remove(x)
				}
			default:
				n, highest := r.IntN(ids+2)-1, r.IntN(2) == 0
				pop := q.PopLowest
				if highest {
					pop = q.PopHighest
				}
				if got, want := pop(n, []int32{7})[1:], w.pop(n, highest); !slices.Equal(got, want) {
					t.Fatalf("seed %d: popped %v, twin %v (%d, highest %v)", seed, got, want, n, highest)
				}
			}
			if all := slices.Concat(w.buckets...); r.IntN(2) == 0 {
				if x, ok := q.PeekLowest(); ok != (len(all) > 0) || ok && x != all[0] {
					t.Fatalf("seed %d: %d first, of %v", seed, x, all)
				}
			}
			x := int32(r.IntN(ids))
			if _, held := w.where[x]; q.Has(x) != held || q.Len() != len(w.where) {
				t.Fatalf("seed %d: has %v, len %d; twin %v, %d", seed, q.Has(x), q.Len(), held, len(w.where))
			}
		}
	}
}

// Ids that come and go in a bucket that is never popped take no more memory with time.
func TestCloseUp(t *testing.T) {
	const ids = 1000
	var q Queue
	q.Reset(ids, 10)
	all, most := make([]int32, ids), 0
	for i := range all {
		all[i] = int32(i)
	}
	for i := range 1000 {
		b := int32(5 + i%3)
		q.Push(b, all[:ids-1]...)
		q.PushAll([]int32{9}, all[ids-1:])
		q.Remove(all...)
		most = max(most, len(q.ids))
	}
	if limit := slack + 5*(ids+4*chunk); most > limit || most <= slack {
		t.Errorf("%d places for %d ids, expected at most %d, and more than %d", most, ids, limit, slack)
	}
}

// byKey orders ids of odd buckets by a key.
type byKey []int

func (k byKey) Mixed(b int32) bool { return b%2 != 0 }

func (k byKey) Sort(ids []int32) {
	slices.SortStableFunc(ids, func(x, y int32) int { return k[x] - k[y] })
}

// checkOrder pops the lowest by a key within buckets, and a whole bucket.
func (w *twin) checkOrder(t *testing.T, seed uint64, q *Queue, r *rand.Rand, ids int) {
	key := make(byKey, ids)
	for x := range key {
		key[x] = r.IntN(4)
	}
	n := r.IntN(ids+2) - 1
	left := n
	for b := range w.buckets {
		if left > 0 && left < len(w.buckets[b]) && key.Mixed(int32(b)) {
			key.Sort(w.buckets[b])
		}
		left -= len(w.buckets[b])
	}
	want := w.pop(n, false)
	got := q.PopLowestBy(key, n, []int32{7})[1:]
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: popped %v by %v, twin %v", seed, got, key, want)
	}
	for q.Len() > 0 && r.IntN(4) == 0 {
		b := q.Lowest()
		had := slices.Sorted(slices.Values(w.buckets[b]))
		for _, x := range had {
			w.remove(x)
		}
		if got, last, begin := q.PopBuckets(1, b, nil); last != b || begin != 0 || !slices.Equal(slices.Sorted(slices.Values(got)), had) {
			t.Fatalf("seed %d: bucket %d has %v, twin %v", seed, b, got, had)
		}
	}
}

// Sort gives the same order as a plain sort, for few and for many ids.
func TestSort(t *testing.T) {
	for seed := uint64(0); seed < 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		ids := make([]Keyed, r.IntN(3*few))
		for i, tie := range r.Perm(len(ids)) {
			ids[i] = Keyed{Key: r.Uint64N(8) << (r.IntN(2) * 60), Tie: uint64(tie) << 40, ID: int32(i)}
		}
		want := slices.Clone(ids)
		slices.SortFunc(want, func(a, b Keyed) int {
			if a.Key == b.Key {
				return cmp.Compare(a.Tie, b.Tie)
			}
			return cmp.Compare(a.Key, b.Key)
		})
		if Sort(ids); !slices.Equal(ids, want) {
			t.Fatalf("seed %d: sorted %v, want %v", seed, ids, want)
		}
	}
}
