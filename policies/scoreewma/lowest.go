package scoreewma

import "math/bits"

// ranked is a block with its key in an order, lowest first.
type ranked struct {
	key   uint64
	block int32
}

// digit is the number of bits of a key that a pass reads.
const digit = 8

// lowest appends to dst the blocks of the n lowest keys. If equal keys straddle the n-th place, it
// returns their blocks in tied, and more, the number of them that must still be chosen. Each pass
// spreads the keys over 256 buckets. It takes all buckets below the one with the n-th key and
// repeats within that one. The blocks are in no order. list is overwritten.
func lowest(list []ranked, n int, dst []int32) (tied []ranked, more int, out []int32) {
	for n > 0 && n < len(list) {
		low, high := span(list)
		if low == high {
			return list, n, dst
		}
		shift := max(0, bits.Len64(high-low)-digit)
		edge := boundary(list, low, shift, n)
		before := len(dst)
		list, dst = split(list, low, shift, edge, dst)
		n -= len(dst) - before
	}
	for _, r := range list[:min(n, len(list))] {
		dst = append(dst, r.block)
	}
	return nil, 0, dst
}

func span(list []ranked) (low, high uint64) {
	low = list[0].key
	for _, r := range list {
		low, high = min(low, r.key), max(high, r.key)
	}
	return low, high
}

// boundary returns the bucket with the n-th lowest key.
func boundary(list []ranked, low uint64, shift, n int) uint64 {
	var count [1 << digit]int32
	for _, r := range list {
		count[uint8((r.key-low)>>shift)]++
	}
	edge, left := uint64(0), int32(n)
	for left > count[edge] {
		left -= count[edge]
		edge++
	}
	return edge
}

// split appends the blocks in buckets below edge to dst and returns those in it.
func split(list []ranked, low uint64, shift int, edge uint64, dst []int32) ([]ranked, []int32) {
	kept := list[:0]
	for _, r := range list {
		switch b := (r.key - low) >> shift; {
		case b < edge:
			dst = append(dst, r.block)
		case b == edge:
			kept = append(kept, r)
		}
	}
	return kept, dst
}
