package demand

import "math/bits"

// Divider divides numbers below 2³¹ by a fixed number, with one multiplication and a shift. See
// Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994, theorem
// 4.2.
type Divider struct {
	factor uint64
	shift  uint
}

// DivideBy returns the Divider by d, which is at least 1.
func DivideBy(d int) Divider {
	shift := uint(31 + bits.Len64(uint64(d)-1))
	return Divider{(1<<shift + uint64(d) - 1) / uint64(d), shift}
}

// Quotient returns x divided by the fixed number, rounded down.
func (v Divider) Quotient(x uint32) uint32 { return uint32(uint64(x) * v.factor >> v.shift) }
