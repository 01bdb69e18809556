package nearlrfu

import (
	"math"
	"slices"
)

// raised are the candidates that a call of Evict met by their rates and set aside. They are mostly
// few and in no order. They are searched only if one of them comes back.
type raised struct {
	blocks, buckets []int32 // buckets of raised rates
	low             int32   // the lowest of them, MaxInt32 if there is none
}

// clear empties r.
func (r *raised) clear() {
	r.blocks, r.buckets, r.low = r.blocks[:0], r.buckets[:0], math.MaxInt32
}

// sift sets aside the candidates among blocks: those whose near is base or more. It moves the
// others to the front and returns their number.
func (r *raised) sift(blocks, near []int32, base int32) (stay int) {
	n, had := len(blocks), len(r.blocks)
	r.blocks = slices.Grow(r.blocks, n)[:had+n]
	stay = split(blocks, near, base, r.blocks[had:])
	r.blocks = r.blocks[:had+n-stay]
	return stay
}

// in adds the bucket of the next block that was set aside.
func (r *raised) in(bucket int32) {
	r.buckets = append(r.buckets, bucket)
	r.low = min(r.low, bucket)
}

// split moves the blocks with near below base to the front and counts them. It copies the others to
// out. As a separate function it has enough registers.
//
//go:noinline
func split(blocks, near []int32, base int32, out []int32) (stay int) {
	out = out[:len(blocks)]
	moved := 0
	for _, x := range blocks {
		blocks[stay], out[moved] = x, x
		below := int(uint32(near[x]-base) >> 31)
		stay += below
		moved += 1 - below
	}
	return stay
}

// take appends the blocks of buckets up to last to dst. The blocks of bucket last begin at index
// begin of dst, and take puts the lower ones before them.
func (r *raised) take(last int32, begin int, dst []int32) (out []int32, at int) {
	if r.low > last {
		return dst, begin
	}
	left := 0
	r.low = math.MaxInt32
	for i, b := range r.buckets {
		x := r.blocks[i]
		if b > last {
			r.blocks[left], r.buckets[left] = x, b
			r.low = min(r.low, b)
			left++
			continue
		}
		dst = append(dst, x)
		if b < last {
			dst[begin], dst[len(dst)-1] = x, dst[begin]
			begin++
		}
	}
	r.blocks, r.buckets = r.blocks[:left], r.buckets[:left]
	return dst, begin
}
