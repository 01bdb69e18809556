package synthetic

import "math/bits"

// ascending fills list with the demand of the step by index, as traces without ranks have it.
func (k *ranker) ascending(list []int32) {
	n := 0
	for i, w := range k.lasting {
		base, left := int32(i<<6), bits.OnesCount64(w)
		for n+4 <= len(list) && left > 0 { // four at a time: some of the last four are written over
			list[n] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			list[n+1] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			list[n+2] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			list[n+3] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			n += min(left, 4)
			left -= 4
		}
		for ; left > 0; left-- {
			list[n] = base + int32(bits.TrailingZeros64(w))
			w &= w - 1
			n++
		}
	}
}
