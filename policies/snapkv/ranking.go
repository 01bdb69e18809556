package snapkv

import (
	"math"
	"slices"
)

// ranking sorts blocks by score, the lowest first, ties to the lowest index. It is a radix sort.
// Each pass spreads the blocks over 256 buckets by eight bits of their scores, the lowest bits
// first. Within a bucket it keeps the order of the pass before. It compares no scores.
type ranking struct {
	spread []int32 // the output of a pass
}

// passes is the number of bytes of a score. It is even, so the last pass writes to the memory in
// which the first one began.
const passes = 4

// rank returns the blocks first, first+1, … with the given scores, in order, in dst's memory.
func (r *ranking) rank(first int32, scores []float32, dst []int32) []int32 {
	n := len(scores)
	dst, r.spread = slices.Grow(dst[:0], n)[:n], slices.Grow(r.spread[:0], n)[:n]
	var having [passes][256]int32 // blocks by eight bits of their scores
	for i, s := range scores {
		dst[i] = first + int32(i)
		key := ordered(s)
		for pass := range having {
			having[pass][uint8(key>>(8*pass))]++
		}
	}
	from, to := dst, r.spread
	for pass := range having {
		place := &having[pass]
		var behind int32
		for bits, n := range place {
			place[bits] = behind
			behind += n
		}
		for _, x := range from {
			bits := uint8(ordered(scores[x-first]) >> (8 * pass))
			to[place[bits]] = x
			place[bits]++
		}
		from, to = to, from
	}
	return dst
}

// ordered maps a score to an integer with the same order.
func ordered(score float32) uint32 {
	b := math.Float32bits(score + 0) // no negative zero
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}
