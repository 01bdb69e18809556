package echo

import "math/bits"

// weights are the weights of the steps by their lag. key is the weight in S, sharp the weight of the
// echoes in the sharp sum. That of the slow sum is slow.
type weights struct{ key, sharp [lags + 1]uint32 }

// weigh returns the weights of the steps by the similarity of the current step to the steps at each
// lag from 1 on. most is the largest similarity.
func weigh(similar []uint32, most uint32) (w weights) {
	known := len(similar) - 1
	var echo, sharp [lags + 2]uint64
	var sum, sharpSum uint64
	for l := 1; l <= known && most > 0; l++ {
		r := uint64(similar[l]) * 65535 / uint64(most)
		r2 := r * r >> 16
		r4 := r2 * r2 >> 16
		r8 := r4 * r4 >> 16
		r16 := r8 * r8 >> 16
		echo[l], sharp[l] = r8*r2>>16, r16*r4>>16
		sum, sharpSum = sum+echo[l], sharpSum+sharp[l]
	}
	follows, followsSharp := uint32(0), uint32(0)
	w.key[known] = fast[known]
	for l := known - 1; l >= 0; l-- {
		follows = share(echo[l+1], sum) + follows*5>>3
		followsSharp = share(sharp[l+1], sharpSum) + followsSharp*3>>3
		w.key[l], w.sharp[l] = 3*follows+fast[l], followsSharp
	}
	return w
}

// share returns part / sum in 1/65536, or 0 without a sum.
func share(part, sum uint64) uint32 {
	if sum == 0 {
		return 0
	}
	return uint32(part << 16 / sum)
}

// sum has the three sums of a block: S, the sharp and the slow one.
type sum struct{ key, sharp, slow uint32 }

// sums are tables from which the sum of the weights of any set of past steps is read, eight steps at
// a time. A number has three sums, each in at least 21 bits. The weights of 65 steps add up to less
// than 2^20, 2^17 and 2^21.
type sums struct {
	tables  [8][256]uint64
	current uint64 // weights of the current step
}

const (
	slowShift  = 21
	sharpShift = 43
)

// set fills the tables for step t, with known steps before it.
func (s *sums) set(t, known int, w *weights) {
	var at [64]uint64 // by bit
	pack := func(l int) uint64 {
		return uint64(w.key[l]) | uint64(slow[l])<<slowShift | uint64(w.sharp[l])<<sharpShift
	}
	for l := 1; l <= known; l++ {
		at[(t-l)&63] = pack(l)
	}
	s.current = pack(0)
	for i := range s.tables {
		table := &s.tables[i]
		for set := 1; set < 256; set++ {
			table[set] = table[set&(set-1)] + at[i<<3|bits.TrailingZeros8(uint8(set))]
		}
	}
}

// of returns the sums of a block with credit now in the current step.
func (s *sums) of(p *past, now uint8) sum {
	total := spread(s.over(p.demand), demandUnit)
	total.add(spread(s.over(p.births), demandUnit))
	total.add(spread(s.over(p.near4), 4))
	total.add(spread(s.over(p.near2), 2))
	total.add(spread(s.over(p.near1), 1))
	total.add(spread(s.current, uint32(now)))
	return total
}

// over returns the sums over the steps of a mask.
func (s *sums) over(mask uint64) uint64 {
	if mask == 0 {
		return 0
	}
	return s.tables[0][mask&255] + s.tables[1][mask>>8&255] + s.tables[2][mask>>16&255] + s.tables[3][mask>>24&255] +
		s.tables[4][mask>>32&255] + s.tables[5][mask>>40&255] + s.tables[6][mask>>48&255] + s.tables[7][mask>>56]
}

// spread returns the three sums, multiplied by a credit.
func spread(packed uint64, credit uint32) sum {
	return sum{uint32(packed&(1<<slowShift-1)) * credit, uint32(packed>>sharpShift) * credit, uint32(packed>>slowShift&(1<<(sharpShift-slowShift)-1)) * credit}
}

func (s *sum) add(o sum) {
	s.key += o.key
	s.sharp += o.sharp
	s.slow += o.slow
}
