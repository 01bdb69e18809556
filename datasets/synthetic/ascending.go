package synthetic

import "math/bits"

// ascending fills list with the demand of the step by index, as traces without ranks have it.
func (k *ranker) ascending(list []int32) {
	n, words := 0, k.lasting
	for i, w := range words {
		if n+64 > len(list) { // not as many as a word may have are left
			n = appendBits(list, n, int32(i<<6), w)
			continue
		}
		base, end := int32(i<<6), n+bits.OnesCount64(w)
		for ; n < end; n += 4 { // four at a time, whether they are there or not
			four := list[n : n+4 : n+4]
			four[0] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[1] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[2] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			four[3] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
		}
		n = end
	}
}

// appendBits puts base plus the number of each bit of a set into list, from n on, and
// returns where they end.
func appendBits(list []int32, n int, base int32, set uint64) int {
	for ; set != 0; set &= set - 1 {
		list[n] = base + int32(bits.TrailingZeros64(set))
		n++
	}
	return n
}
