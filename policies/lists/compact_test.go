package lists

import (
	"slices"
	"testing"
)

// A list that is compacted keeps its ids and their order. Two ids stay behind a stale entry,
// thousands join and leave behind them, and some more join after.
func TestCompact(t *testing.T) {
	const in = 2
	var l Lists
	l.Reset(10)
	l.PushAll(in, []int32{9, 1, 2})
	l.Pop(in, 1, nil)
	for len(l.lists[in].entries) <= 8*l.Len(in)+slack {
		l.PushAll(in, []int32{3})
		l.Drop(3)
	}
	l.Reserve(in, 3)
	if n := len(l.lists[in].entries); n != 2 {
		t.Fatalf("%d entries after the list was compacted, 2 are held", n)
	}
	for _, x := range []int32{6, 5, 4} {
		l.Push(in, x)
	}
	if l.Drop(5) != in || l.In(5) != None || l.In(1) != in {
		t.Errorf("5 was dropped: it is in list %d, 1 in list %d", l.In(5), l.In(1))
	}
	l.PushAll(in, []int32{8, 7})
	if n, got := l.Len(in), l.Pop(in, 9, nil); n != 6 || !slices.Equal(got, []int32{1, 2, 6, 4, 8, 7}) {
		t.Errorf("%d ids, %v; want 1 2 6 4 8 7", n, got)
	}
}
