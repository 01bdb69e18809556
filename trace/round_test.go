package trace

import (
	"math"
	"math/rand/v2"
	"testing"
)

// roundMantissas gives the same values as RoundMantissa, including the extremes of float32.
func TestRoundMantissas(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		r := rand.New(rand.NewPCG(seed, 6))
		values := []float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.NaN()), float32(math.Inf(-1))}
		for range 100 {
			values = append(values, math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32N(4)<<30|r.Uint32N(1<<12)<<12|1<<11))
		}
		bits := r.IntN(25)
		got := append([]float32(nil), values...)
		roundMantissas(got, bits)
		for i, v := range values {
			if want := RoundMantissa(v, bits); math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Fatalf("seed %d: %v in %d bits is %v, expected %v", seed, v, bits, got[i], want)
			}
		}
	}
}
