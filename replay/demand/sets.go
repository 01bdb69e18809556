package demand

import (
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// mark adds the list to the set. It reports whether the set has room for all indices. The set has
// no room for negative ones.
func mark(set []uint64, list []int32) bool {
	for _, x := range list {
		w := int(uint32(x) >> 6)
		if w >= len(set) {
			return false
		}
		set[w] |= 1 << (uint32(x) & 63)
	}
	return true
}

// noneFrom reports whether all members of the set are below blocks. A set has room for the last
// context of a stream, and earlier contexts are shorter.
func noneFrom(set []uint64, blocks int) bool {
	w := blocks >> 6
	if w >= len(set) {
		return true
	}
	past := set[w] >> (blocks & 63)
	for _, c := range set[w+1:] {
		past |= c
	}
	return past == 0
}

// unpin clears the bits below free and from local on. It returns the number of cleared bits.
func unpin(set []uint64, free, local int) (cleared int) {
	clearWord := func(w int, mask uint64) {
		cleared += bits.OnesCount64(set[w] & mask)
		set[w] &^= mask
	}
	for w := 0; w < min(free>>6, len(set)); w++ {
		clearWord(w, ^uint64(0))
	}
	if w := free >> 6; w < len(set) {
		clearWord(w, 1<<(free&63)-1)
	}
	if w := local >> 6; w < len(set) {
		clearWord(w, ^uint64(0)<<(local&63))
		for w++; w < len(set); w++ {
			clearWord(w, ^uint64(0))
		}
	}
	return cleared
}

// population returns the number of members of a set.
func population(set []uint64) (n int) {
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}

// spare is the number of places that writeMembers may write behind its last item.
const spare = 8

// writeMembers writes base plus each member of set to dst, and returns the number of members. The
// set has at most `most` members, and dst has room for spare items more.
func writeMembers(dst []int32, base int32, set []uint64, most int) (n int) {
	if most > 2*len(set) {
		return writeDense(dst, base, set)
	}
	for w, c := range set {
		n += appendBits(dst[n:], base+int32(w<<6), c)
	}
	return n
}

// writeDense does the same for words with more than two members on average. The processor cannot
// predict a branch on their number. writeDense therefore writes eight items for every word.
func writeDense(dst []int32, base int32, set []uint64) (n int) {
	for w, c := range set {
		id, end := base+int32(w<<6), n+bits.OnesCount64(c)
		eight := (*[spare]int32)(dst[n:])
		eight[0] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[1] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[2] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[3] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[4] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[5] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[6] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		eight[7] = id + int32(bits.TrailingZeros64(c))
		c &= c - 1
		for i := n + spare; i < end; i++ {
			dst[i] = id + int32(bits.TrailingZeros64(c))
			c &= c - 1
		}
		n = end
	}
	return n
}

// appendMembers appends the members of set to dst.
func appendMembers(dst []int32, set []uint64) []int32 {
	n, most := len(dst), population(set)
	dst = slices.Grow(dst, most+spare)
	return dst[:n+writeMembers(dst[n:n+most+spare], 0, set, most)]
}

// appendBits writes base plus the position of each bit of set to dst, and returns their number.
// It always writes two items, so dst needs two spare places. A word with at most two bits then
// costs no mispredicted branch.
func appendBits(dst []int32, base int32, set uint64) int {
	n := bits.OnesCount64(set)
	two := (*[2]int32)(dst)
	two[0] = base + int32(bits.TrailingZeros64(set))
	set &= set - 1
	two[1] = base + int32(bits.TrailingZeros64(set))
	if n > 2 {
		more := dst[2:n]
		for i := range more {
			set &= set - 1
			more[i] = base + int32(bits.TrailingZeros64(set))
		}
	}
	return n
}

// Sorter sorts lists of blocks with a bitset, which takes less time than comparing them.
type Sorter struct {
	set []uint64 // empty between calls
}

// Reset makes room for the blocks 0 … blocks-1.
func (s *Sorter) Reset(blocks int) { s.set = policies.Fill(s.set, blocks>>6+1, 0) }

// Sort returns the list in ascending order, in its memory if that has room. The blocks must be
// distinct.
func (s *Sorter) Sort(list []int32) []int32 {
	if len(list) == 0 {
		return list
	}
	low, high := list[0], list[0]
	for _, x := range list {
		low, high = min(low, x), max(high, x)
	}
	first := low >> 6
	set := s.set[first : high>>6+1]
	if len(list) < len(set)/sparse {
		slices.Sort(list)
		return list
	}
	for _, x := range list {
		set[x>>6-first] |= 1 << (x & 63)
	}
	n := len(list)
	list = slices.Grow(list, spare)[:n+spare]
	writeMembers(list, first<<6, set, n)
	clear(set)
	return list[:n]
}

// sparse is the number of words for each member beyond which comparing members is faster.
const sparse = 8
