package replay

import (
	"math/bits"
	"slices"
)

// extract takes the pinned blocks out of d.cur, appends what entered and left
// against the row before, and makes d.cur the row before. It reports whether d.cur
// had as many members as the list that it was loaded from, n.
func (d *Delta) extract(firstFree, firstLocal, n int) bool {
	cur := d.cur
	prev := d.prev[:len(cur)]
	pinned := unpin(cur, firstFree, firstLocal)
	if len(d.kept) > 0 {
		pinned += d.unpinKept(cur)
	}
	before := 0
	if rows := len(d.Size); rows > 0 {
		before = int(d.Size[rows-1])
	}
	enter, exit := d.Enter.free(n+2), d.Exit.free(before+2)
	a, b := 0, 0
	for _, w := range d.differing(cur, prev) {
		c, p := cur[w], prev[w]
		a += appendBits(enter[a:], w<<6, c&^p)
		b += appendBits(exit[b:], w<<6, p&^c)
	}
	size := before + a - b
	d.Enter.take(a)
	d.Exit.take(b)
	if d.hasMembers {
		members, k := d.Members.free(size+2), 0
		for w, c := range cur {
			k += appendBits(members[k:], int32(w<<6), c)
		}
		d.Members.take(k)
	}
	d.Size = append(d.Size, int32(size))
	d.MaxDemand = max(d.MaxDemand, size)
	d.cur, d.prev = d.prev, d.cur
	return size+pinned == n
}

// differing returns the words in which two sets of one length differ. Whether the next
// word does is as good as random, so every word is written down and most are written over.
func (d *Delta) differing(a, b []uint64) []int32 {
	b = b[:len(a)]
	d.changed = slices.Grow(d.changed[:0], len(a)+1)
	changed := d.changed[:len(a)+1]
	n := 0
	for w, x := range a {
		x ^= b[w]
		changed[n] = int32(w)
		n += int((x | -x) >> 63)
	}
	return changed[:n]
}

// appendBits writes base plus the position of each bit of set to dst, which has two
// places to spare, and returns their number. Two are written before they are known
// to be there: a word with at most two costs no mispredicted branch.
func appendBits(dst []int32, base int32, set uint64) int {
	n := bits.OnesCount64(set)
	two := (*[2]int32)(dst)
	two[0] = base | int32(bits.TrailingZeros64(set))
	set &= set - 1
	two[1] = base | int32(bits.TrailingZeros64(set))
	if n > 2 {
		more := dst[2:n]
		for i := range more {
			set &= set - 1
			more[i] = base | int32(bits.TrailingZeros64(set))
		}
	}
	return n
}

// unpin clears the bits before firstFree and from firstLocal on and returns how many
// it cleared.
func unpin(set []uint64, firstFree, firstLocal int) (cleared int) {
	clearWord := func(w int, mask uint64) {
		cleared += bits.OnesCount64(set[w] & mask)
		set[w] &^= mask
	}
	for w := 0; w < min(firstFree>>6, len(set)); w++ {
		clearWord(w, ^uint64(0))
	}
	if w := firstFree >> 6; w < len(set) {
		clearWord(w, 1<<(firstFree&63)-1)
	}
	if w := firstLocal >> 6; w < len(set) {
		clearWord(w, ^uint64(0)<<(firstLocal&63))
		for w++; w < len(set); w++ {
			clearWord(w, ^uint64(0))
		}
	}
	return cleared
}

func population(set []uint64) (n int) {
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}
