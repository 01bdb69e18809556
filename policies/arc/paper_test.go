package arc

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies/serialtest"
)

// paper is ARC(c) of Fig. 4 for single accesses, line by line.
type paper struct {
	c              int
	p              float64
	t1, t2, b1, b2 []int32
	evicted        int32
}

func pop(list *[]int32) int32 {
	x := (*list)[0]
	*list = (*list)[1:]
	return x
}

func (a *paper) replace(inB2 bool) {
	size := float64(len(a.t1))
	if len(a.t1) >= 1 && (inB2 && size == a.p || size > a.p) {
		a.evicted = pop(&a.t1)
		a.b1 = append(a.b1, a.evicted)
	} else {
		a.evicted = pop(&a.t2)
		a.b2 = append(a.b2, a.evicted)
	}
}

func (a *paper) access(x int32) (hit bool, evicted int32) {
	a.evicted = -1
	n1, n2 := float64(len(a.b1)), float64(len(a.b2))
	switch {
	case slices.Contains(a.t1, x), slices.Contains(a.t2, x): // case I
		hit = true
	case slices.Contains(a.b1, x): // case II
		a.p = min(float64(a.c), a.p+max(n2/n1, 1))
		a.replace(false)
	case slices.Contains(a.b2, x): // case III
		a.p = max(0, a.p-max(n1/n2, 1))
		a.replace(true)
	default: // case IV
		a.makeRoom()
		a.t1 = append(a.t1, x)
		return false, a.evicted
	}
	a.t1, a.t2, a.b1, a.b2 = drop(a.t1, x), append(drop(a.t2, x), x), drop(a.b1, x), drop(a.b2, x)
	return hit, a.evicted
}

func (a *paper) makeRoom() {
	l1, all := len(a.t1)+len(a.b1), len(a.t1)+len(a.t2)+len(a.b1)+len(a.b2)
	switch {
	case l1 == a.c && len(a.t1) < a.c:
		pop(&a.b1)
		a.replace(false)
	case l1 == a.c:
		a.evicted = pop(&a.t1)
	case all >= a.c:
		if all == 2*a.c {
			pop(&a.b2)
		}
		a.replace(false)
	}
}

// With steps of one block the policy equals that of the paper.
func TestPaper(t *testing.T) {
	serialtest.Compare(t, Entry, "", func(capacity int) serialtest.Access { return (&paper{c: capacity}).access })
}
