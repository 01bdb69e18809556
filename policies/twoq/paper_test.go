package twoq

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/serialtest"
)

// paper is the full version of section 3.2 for single accesses, line by line.
type paper struct {
	slots, kin, kout int
	am, a1in, a1out  []int32
}

func pop(list *[]int32) int32 {
	x := (*list)[0]
	*list = (*list)[1:]
	return x
}

func (q *paper) reclaimFor() (y int32) {
	switch {
	case len(q.am)+len(q.a1in) < q.slots: // a free page slot
		return -1
	case len(q.a1in) > q.kin, len(q.am) == 0: // the latter only if Kin is the whole cache
		y = pop(&q.a1in)
		q.a1out = append(q.a1out, y)
		if len(q.a1out) > q.kout {
			pop(&q.a1out)
		}
	default:
		y = pop(&q.am)
	}
	return y
}

func (q *paper) access(x int32) (hit bool, evicted int32) {
	evicted = -1
	switch {
	case slices.Contains(q.am, x):
		q.am = append(drop(q.am, x), x)
		hit = true
	case slices.Contains(q.a1out, x):
		q.a1out = drop(q.a1out, x)
		evicted = q.reclaimFor()
		q.am = append(q.am, x)
	case slices.Contains(q.a1in, x):
		hit = true
	default:
		evicted = q.reclaimFor()
		q.a1in = append(q.a1in, x)
	}
	return hit, evicted
}

// With steps of one block the policy equals that of the paper.
func TestPaper(t *testing.T) {
	for options, share := range map[string][2]float64{"": {0.25, 0.5}, "kin=0.5,kout=2": {0.5, 2}, "kin=0,kout=0": {0, 0}} {
		serialtest.Compare(t, Entry, options, func(capacity int) serialtest.Access {
			return (&paper{slots: capacity, kin: policies.Part(share[0], capacity), kout: policies.Part(share[1], capacity)}).access
		})
	}
}
