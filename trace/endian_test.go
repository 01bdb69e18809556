package trace

import (
	"bytes"
	"math"
	"testing"
)

// littleEndian and the portable appendLittleEndian give the same bytes.
func TestLittleEndian(t *testing.T) {
	ints := []int32{0, 1, -1, 0x01020304, math.MinInt32, math.MaxInt32}
	floats := []float32{0, 1, -1.5, float32(math.Inf(1)), math.MaxFloat32, math.SmallestNonzeroFloat32}
	defer func(native bool) { littleEndianMachine = native }(littleEndianMachine)
	for _, native := range []bool{littleEndianMachine, false} {
		littleEndianMachine = native
		var scratch []byte
		for n := range len(ints) + 1 {
			if got, want := littleEndian(&scratch, ints[:n]), appendLittleEndian(nil, ints[:n]); !bytes.Equal(got, want) {
				t.Errorf("own memory %v: %x of %v, expected %x", native, got, ints[:n], want)
			}
			if got, want := littleEndian(&scratch, floats[:n]), appendLittleEndian(nil, floats[:n]); !bytes.Equal(got, want) {
				t.Errorf("own memory %v: %x of %v, expected %x", native, got, floats[:n], want)
			}
		}
	}
	if got, want := appendLittleEndian(nil, []int32{0x01020304}), []byte{4, 3, 2, 1}; !bytes.Equal(got, want) {
		t.Errorf("%x, expected %x", got, want)
	}
}
