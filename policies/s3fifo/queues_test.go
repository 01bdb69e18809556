package s3fifo

import (
	"slices"
	"testing"
)

// Four of 200 entries are held, and so is a block that was dropped and came back. After compaction
// they are in order of insertion, with 70 and 150 outside the demand as before.
func TestCloseGaps(t *testing.T) {
	var q queues
	q.reset(200, 0)
	fetched := make([]int32, 200)
	for i := range fetched {
		fetched[i] = int32(i)
	}
	q.fetch(fetched, -1)
	q.leave([]int32{70, 150}, 1)
	held := []int32{40, 70, 130, 150}
	q.drop(slices.DeleteFunc(slices.Clone(fetched), func(x int32) bool { return slices.Contains(held, x) }))
	q.fetch([]int32{5}, -2)

	q.compact()
	if n := len(q.of[small].entries); n != 201 {
		t.Errorf("%d entries, too few to be worth compacting, are %d when compacted", 201, n)
	}
	q.closeGaps(small)
	in, want := &q.of[small], []int32{40, 70, 130, 150, 5}
	if !slices.Equal(in.entries, want) || in.live != 5 || in.shown != 2 {
		t.Fatalf("entries %v, %d held and %d open; want %v, 5 and 2", in.entries, in.live, in.shown, want)
	}
	for i, x := range want {
		if at := q.blocks[x].place; at != int32(i)<<1 {
			t.Errorf("block %d has place %d, its entry is %d", x, at, i)
		}
	}
	if w := in.words; len(w) != 1 || w[0] != (word{held: 0b11111, open: 0b01010}) {
		t.Errorf("words %b; want 11111 held, 1010 open", w)
	}
}
