package trace

import "math"

// DefaultMantissaBits is the precision scores are stored with unless told otherwise:
// rounding to 10 bits changes score-driven policies by at most 0.0013 % of their
// misses and halves the bytes of a score (FORMAT.md, "Rounding of scores").
const DefaultMantissaBits = 10

// RoundMantissa rounds finite v to the given number of mantissa bits, ties to even;
// it is monotone, so ranks never swap. 23 bits or more change nothing.
func RoundMantissa(v float32, bits int) float32 {
	if bits >= 23 || v != v || math.IsInf(float64(v), 0) {
		return v
	}
	drop := uint(23 - bits)
	b := math.Float32bits(v)
	odd := b >> drop & 1
	r := math.Float32frombits((b + 1<<(drop-1) - 1 + odd) &^ (1<<drop - 1))
	if math.IsInf(float64(r), 0) {
		return math.Float32frombits(b &^ (1<<drop - 1)) // the largest values round down rather than overflow
	}
	return r
}

// roundMantissas rounds each of values, with RoundMantissa where rounding may overflow or
// there is no finite number.
func roundMantissas(values []float32, bits int) {
	if bits >= 23 {
		return
	}
	drop := uint(23-bits) & 31
	low := uint32(1)<<drop - 1
	for i, v := range values {
		b := math.Float32bits(v)
		if b&0x7f000000 == 0x7f000000 {
			values[i] = RoundMantissa(v, bits)
			continue
		}
		values[i] = math.Float32frombits((b + low>>1 + b>>drop&1) &^ low)
	}
}
