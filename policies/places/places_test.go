package places

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// member is a place in the twin: a slice without empty places.
type member struct {
	x            int32
	open, marked bool
}

// The queue against a slice. A hand is a member in the twin and a place in the queue.
func TestAgainstSlice(t *testing.T) {
	var q Queue
	for seed := uint64(0); seed < 400; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		blocks := 1 + r.IntN(100)
		q.Reset(blocks)
		var twin []member
		for range 1500 {
			x := int32(r.IntN(blocks))
			i := slices.IndexFunc(twin, func(m member) bool { return m.x == x })
			if q.Has(x) != (i >= 0) || q.Live() != len(twin) {
				t.Fatalf("seed %d: has %v, live %d; twin %d, %d", seed, q.Has(x), q.Live(), i, len(twin))
			}
			switch {
			case i < 0:
				q.Compact(1, 0)
				q.Insert(x)
				twin = append(twin, member{x: x})
			case !twin[i].open && r.IntN(3) > 0:
				mark := r.IntN(2) == 0
				q.Show(x, mark)
				twin[i].open, twin[i].marked = true, twin[i].marked || mark
			case !twin[i].open:
				q.Remove(x)
				q.Trim()
				twin = slices.Delete(twin, i, i+1)
			case r.IntN(3) == 0:
				q.Hide(x)
				twin[i].open = false
			case r.IntN(3) == 0:
				q.Requeue(slices.Index(q.owner, x))
				twin = append(slices.Delete(twin, i, i+1), member{x: x, open: true})
			default:
				checkHand(t, seed, &q, twin, i)
			}
		}
	}
}

// checkHand looks for victims from the place of twin[i] on.
func checkHand(t *testing.T, seed uint64, q *Queue, twin []member, i int) {
	hand := slices.Index(q.owner, twin[i].x)
	if moved := q.Compact(0, hand); q.Owner(moved) != twin[i].x {
		t.Fatalf("seed %d: a hand at block %d is at block %d when compacted", seed, twin[i].x, q.Owner(moved))
	} else {
		hand = moved
	}
	if got := q.Owner(q.Next(hand)); got != twin[i].x {
		t.Fatalf("seed %d: next of open block %d is %d", seed, twin[i].x, got)
	}
	want := int32(empty)
	for j := i; j < len(twin) && want == empty; j++ {
		if twin[j].open && !twin[j].marked {
			want = twin[j].x
		} else if twin[j].open {
			twin[j].marked = false
		}
	}
	got := int32(empty)
	if at := q.Sweep(hand); at >= 0 {
		got = q.Owner(at)
	}
	if got != want {
		t.Fatalf("seed %d: sweep from block %d finds %d, twin %d", seed, twin[i].x, got, want)
	}
}
