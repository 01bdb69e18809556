package echo

import "math/bits"

// features are the figures of a block from which its score is made. values are the distance from
// the edge, the quarter of the candidates, the number of listed neighbours, the sharp sum and the
// slow sum. All but the second and the third count halves of powers of two.
type features struct {
	key    uint32
	values [5]uint8
}

// buckets is the number of buckets of a key, and the most values of a feature.
const buckets = 64

// calibrator corrects keys by how often blocks with equal features came back. Chances and counts
// are in 1/65536.
type calibrator struct {
	returned, noted    [buckets]int64 // blocks by bucket of their key: those that came back, and all
	observed, expected [5][buckets]int64
	chance             [buckets]int64    // that a block comes back, not falling from bucket to bucket
	offset             [5][buckets]int32 // correction of each feature value, in 1/256 of log2

	notes       [buckets]int64 // of the step before, not yet in noted and expected
	expectation [5][buckets]int64
}

func (c *calibrator) reset() {
	*c = calibrator{}
	for b := range buckets {
		c.returned[b], c.noted[b] = 1<<14, 1<<18
		for f := range c.observed {
			c.observed[f][b], c.expected[f][b] = 1<<18, 1<<18
		}
	}
}

// learn adds the blocks that the step before noted, and those of them that came back.
func (c *calibrator) learn(seen []uint32, demand []int32) {
	for _, x := range demand {
		note := seen[x]
		if note == 0 {
			continue
		}
		c.returned[note>>25&63] += 1 << 16
		c.observed[0][note>>19&63] += 1 << 16
		c.observed[1][note>>16&7] += 1 << 16
		c.observed[2][note>>12&15] += 1 << 16
		c.observed[3][note>>6&63] += 1 << 16
		c.observed[4][note&63] += 1 << 16
	}
	most := int64(0)
	for b := range buckets {
		c.noted[b] += c.notes[b] << 16
		most = max(most, c.returned[b]<<16/c.noted[b])
		c.chance[b] = most
		for f := range c.observed {
			c.expected[f][b] += c.expectation[f][b]
			c.offset[f][b] = logarithm(uint64(c.observed[f][b])) - logarithm(uint64(c.expected[f][b]))
		}
	}
	c.notes, c.expectation = [buckets]int64{}, [5][buckets]int64{}
}

// correction returns the sum of the offsets of a block's features, weighted by 180/256.
func (c *calibrator) correction(f *features) int32 {
	v := &f.values
	return (c.offset[0][v[0]&63] + c.offset[1][v[1]&63] + c.offset[2][v[2]&63] + c.offset[3][v[3]&63] + c.offset[4][v[4]&63]) * 180 >> 8
}

// note notes a block of the current step for learn, and returns its features in 31 bits. They begin
// with a 1.
func (c *calibrator) note(f *features, correction int32) uint32 {
	b := min(buckets-1, half(f.key))
	p := chances(c.chance[b], correction)
	c.notes[b]++
	for i, v := range f.values {
		c.expectation[i][v&63] += p
	}
	v := &f.values
	return 1<<31 | uint32(b)<<25 | uint32(v[0])<<19 | uint32(v[1])<<16 | uint32(v[2])<<12 | uint32(v[3])<<6 | uint32(v[4])
}

// chances returns p·2^(c/256), at most 64000. Between powers of two it is linear.
func chances(p int64, c int32) int64 {
	z := c + 16<<8
	if z < 0 {
		return 0
	}
	return min(p*(int64(256+z&255)<<min(40, z>>8)>>8)>>16, 64000)
}

// logarithm returns log2 x in 1/256, linear between powers of two and rounded down. That of 0 is 0.
func logarithm(x uint64) int32 {
	x = max(x, 1)
	b := bits.Len64(x) - 1
	if b >= 8 {
		return int32(b)<<8 + int32(x>>(b-8)) - 256
	}
	return int32(b)<<8 + int32(x<<(8-b)) - 256
}

// half returns logarithm(x) >> 7.
func half(x uint32) int {
	return int(logarithm(uint64(x)) >> 7)
}
