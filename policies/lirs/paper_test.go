package lirs

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/serialtest"
)

// paper is section 3.3 for single accesses.
type paper struct {
	capacity, most int
	lir, resident  map[int32]bool
	s, q           []int32 // S from bottom to top, Q from front to end
}

func newPaper(capacity int, share float64) *paper {
	return &paper{capacity: capacity, most: capacity - max(1, policies.Part(share, capacity)), lir: map[int32]bool{}, resident: map[int32]bool{}}
}

func (l *paper) access(x int32) (hit bool, evicted int32) {
	evicted, hit = -1, l.resident[x]
	if !hit && len(l.resident) == l.capacity { // "remove the HIR resident block at the front of list Q"
		evicted = l.q[0]
		l.q = l.q[1:]
		delete(l.resident, evicted)
	}
	recent := slices.Contains(l.s, x)
	l.resident[x] = true
	l.s, l.q = append(drop(l.s, x), x), drop(l.q, x)
	switch {
	case l.lir[x]: // case 1
	case len(l.lir) < l.most: // the LIR block set is not full
		l.lir[x] = true
	case recent: // cases 2(a), 3(a)
		l.lir[x] = true
		bottom := l.s[0]
		delete(l.lir, bottom)
		l.q = append(l.q, bottom)
	default: // cases 2(b), 3(b)
		l.q = append(l.q, x)
	}
	for !l.lir[l.s[0]] { // stack pruning
		l.s = l.s[1:]
	}
	return hit, evicted
}

// With steps of one block the policy equals that of the paper.
func TestPaper(t *testing.T) {
	for options, share := range map[string]float64{"": 0.01, "hir=0.3": 0.3, "hir=0.7": 0.7} {
		serialtest.Compare(t, Entry, options, func(capacity int) serialtest.Access { return newPaper(capacity, share).access })
	}
}
