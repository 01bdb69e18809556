package bucket

import "math/bits"

// Ranked is an id with its key in an order, lowest first.
type Ranked struct {
	Key uint64
	ID  int32
}

// digit is the number of bits of a key that a pass reads.
const digit = 8

// Lowest appends to dst the ids of the n lowest keys. If equal keys straddle the n-th place, it
// returns their ids in tied, and more, the number of them that must still be chosen. Each pass
// spreads the keys over 256 buckets. It takes all buckets below the one with the n-th key and
// repeats within that one. The ids are in no order. list is overwritten.
func Lowest(list []Ranked, n int, dst []int32) (tied []Ranked, more int, out []int32) {
	for n > 0 && n < len(list) {
		low, high := span(list)
		if low == high {
			return list, n, dst
		}
		shift := max(0, bits.Len64(high-low)-digit)
		edge := boundary(list, low, shift, n)
		before := len(dst)
		list, dst = splitKeys(list, low, shift, edge, dst)
		n -= len(dst) - before
	}
	for _, r := range list[:min(n, len(list))] {
		dst = append(dst, r.ID)
	}
	return nil, 0, dst
}

func span(list []Ranked) (low, high uint64) {
	low = list[0].Key
	for _, r := range list {
		low, high = min(low, r.Key), max(high, r.Key)
	}
	return low, high
}

// boundary returns the bucket with the n-th lowest key.
func boundary(list []Ranked, low uint64, shift, n int) uint64 {
	var count [1 << digit]int32
	for _, r := range list {
		count[uint8((r.Key-low)>>shift)]++
	}
	edge, left := uint64(0), int32(n)
	for left > count[edge] {
		left -= count[edge]
		edge++
	}
	return edge
}

// splitKeys appends the ids in buckets below edge to dst and returns those in it.
func splitKeys(list []Ranked, low uint64, shift int, edge uint64, dst []int32) ([]Ranked, []int32) {
	kept := list[:0]
	for _, r := range list {
		switch b := (r.Key - low) >> shift; {
		case b < edge:
			dst = append(dst, r.ID)
		case b == edge:
			kept = append(kept, r)
		}
	}
	return kept, dst
}
