package importer

import "math"

// wantFloats is what scores and masses may be, for messages.
const wantFloats = "float, double or float16 (bfloat16, which neither Parquet nor Arrow has, becomes float32 exactly: cast it before writing)"

// half is the value of a half-precision number (IEEE 754 binary16), exactly. The Arrow
// library's own takes subnormal ones, which most softmax scores are, for numbers near 1e-38.
func half(bits uint16) float32 {
	sign, exponent, fraction := bits>>15, int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1024+fraction, exponent-25)
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction > 0 {
			v = math.NaN()
		}
	}
	if sign == 1 {
		v = -v
	}
	return float32(v)
}
