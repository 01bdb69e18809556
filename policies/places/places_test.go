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

// twin is the queue as a slice, with the blocks fetched at the last step.
type twin struct {
	members []member
	fetched []int32
}

func (w *twin) find(x int32) int {
	return slices.IndexFunc(w.members, func(m member) bool { return m.x == x })
}

// some draws members that are open, or closed.
func (w *twin) some(r *rand.Rand, open bool) (list []int32) {
	for _, m := range w.members {
		if m.open == open && r.IntN(2) == 0 {
			list = append(list, m.x)
		}
	}
	slices.Sort(list)
	return list
}

// absent draws blocks that are not held.
func (w *twin) absent(r *rand.Rand, blocks int) (list []int32) {
	for x := range int32(blocks) {
		if w.find(x) < 0 && r.IntN(4) == 0 {
			list = append(list, x)
		}
	}
	return list
}

// sweep moves a hand from the i-th member on. It returns the members found, and the member behind
// the last one.
func (w *twin) sweep(i, n int) (found []int32, stop int) {
	for open := len(w.some(rand.New(always{}), true)); n > 0 && open > 0; i++ {
		m := &w.members[i%len(w.members)]
		switch {
		case !m.open:
		case m.marked:
			m.marked = false
		default:
			found = append(found, m.x)
			m.open = false
			n, open = n-1, open-1
		}
	}
	return found, i
}

// always is a source of zeros, with which every member is drawn.
type always struct{}

func (always) Uint64() uint64 { return 0 }

// The queue agrees with a slice. A hand is a member in the twin and a place in the queue.
func TestAgainstSlice(t *testing.T) {
	var q Queue
	for seed := uint64(0); seed < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		blocks := 1 + r.IntN(300)
		q.Reset(blocks)
		w := new(twin)
		for range 200 {
			switch r.IntN(6) {
			case 0:
				w.leave(&q, w.some(r, false))
			case 1:
				list := w.some(r, true)
				q.Enter(list)
				for _, x := range list {
					w.members[w.find(x)].open = false
				}
			case 2:
				w.insert(t, &q, w.absent(r, blocks), r.IntN(2) == 0)
			case 3:
				w.remove(&q, w.some(r, false))
			default:
				if len(w.members) > 0 {
					w.checkHand(t, seed, &q, r)
				}
			}
			if x := int32(r.IntN(blocks)); q.Has(x) != (w.find(x) >= 0) || q.Fetched(x) != slices.Contains(w.fetched, x) {
				t.Fatalf("seed %d: has %v, fetched %v; twin %d, %v", seed, q.Has(x), q.Fetched(x), w.find(x), w.fetched)
			}
		}
	}
}

func (w *twin) leave(q *Queue, list []int32) {
	q.Leave(list)
	for _, x := range list {
		m := &w.members[w.find(x)]
		m.open, m.marked = true, m.marked || !slices.Contains(w.fetched, x)
	}
}

// insert inserts fetches or births. After that, at most three in four places and 64 more are empty.
func (w *twin) insert(t *testing.T, q *Queue, list []int32, births bool) {
	q.Compact(len(list), 0)
	q.Insert(list)
	if most := 4*(len(w.members)+len(list)) + 64; q.Len() > most {
		t.Fatalf("%d places for %d blocks, %d are allowed", q.Len(), len(w.members)+len(list), most)
	}
	if births {
		q.Open(list)
	} else {
		q.Fetch(list)
		w.fetched = slices.Clone(list)
	}
	for _, x := range list {
		w.members = append(w.members, member{x: x, open: births})
	}
}

// remove empties places and fills all but one of them again.
func (w *twin) remove(q *Queue, list []int32) {
	var places []int32
	for _, x := range list {
		at := q.Remove(x)
		q.Unfetch(x)
		w.fetched = slices.DeleteFunc(w.fetched, func(y int32) bool { return y == x })
		places = append(places, at)
	}
	for i := 1; i < len(list); i++ { // each block to the place of the one before
		m := &w.members[w.find(list[i-1])]
		m.marked, m.x = false, -1-list[i]
	}
	for i := range w.members {
		if m := &w.members[i]; m.x < 0 {
			m.x = -1 - m.x
		} else if len(list) > 0 && m.x == list[len(list)-1] {
			m.x = -1
		}
	}
	w.members = slices.DeleteFunc(w.members, func(m member) bool { return m.x == -1 })
	if len(list) > 0 {
		q.Put(list[1:], places)
	}
	q.Trim()
}

// checkHand sweeps from a member on.
func (w *twin) checkHand(t *testing.T, seed uint64, q *Queue, r *rand.Rand) {
	i, n := r.IntN(len(w.members)), r.IntN(len(w.members)+2)
	hand := q.Compact(0, slices.Index(q.owner, w.members[i].x))
	if got := q.owner[hand]; got != w.members[i].x {
		t.Fatalf("seed %d: a hand at block %d is at block %d when compacted", seed, w.members[i].x, got)
	}
	want, behind := w.sweep(i, n)
	places, stop := q.Sweep(hand, n, nil)
	if len(want) > 0 {
		last := w.members[(behind-1)%len(w.members)].x
		if got := q.owner[stop-1]; got != last {
			t.Fatalf("seed %d: the hand stops behind block %d, twin %d", seed, got, last)
		}
	} else if stop != hand {
		t.Fatalf("seed %d: the hand moves from %d to %d and finds nothing", seed, hand, stop)
	}
	if got := q.Vacate(places, nil); !slices.Equal(got, want) {
		t.Fatalf("seed %d: found %v from block %d on, twin %v", seed, got, w.members[i].x, want)
	}
	w.members = slices.DeleteFunc(w.members, func(m member) bool { return slices.Contains(want, m.x) })
	q.Trim()
}
