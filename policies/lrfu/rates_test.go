package lrfu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
)

// Over long streams a rate stays within a few units of the last place of its definition, Σ γ^(t-s).
// Places order as rates do.
func TestRatesOverLongStreams(t *testing.T) {
	const steps, windows = 4000, 32
	for _, gamma := range []float64{MinGamma, 0.5, 0.95, 0.97, 0.999, MaxGamma} {
		r := rand.New(rand.NewPCG(1, 1))
		var rates Rates
		buckets := rates.Reset(&policies.Scope{Blocks: 2, Steps: steps, Windows: windows}, gamma, 0)
		exact := []*big.Float{new(big.Float).SetPrec(400), new(big.Float).SetPrec(400)}
		in := []bool{false, false}
		for now := int32(-windows); now < steps-windows; now++ {
			for x := range int32(2) {
				switch change := r.IntN(8) == 0; {
				case in[x] && change:
					rates.leave([]int32{x}, now)
					in[x] = false
				case !in[x] && change:
					rates.enter([]int32{x}, now)
					in[x] = true
				}
			}
			if !in[0] && !in[1] {
				checkPlaces(t, &rates, buckets, gamma, now, exact)
			}
			for x := range exact {
				exact[x].Mul(exact[x], big.NewFloat(gamma))
				if in[x] {
					exact[x].Add(exact[x], big.NewFloat(1))
				}
			}
		}
	}
}

// checkPlaces compares two idle blocks with their rates before step now.
func checkPlaces(t *testing.T, rates *Rates, buckets int, gamma float64, now int32, exact []*big.Float) {
	t.Helper()
	x, _ := exact[0].Float64()
	y, _ := exact[1].Float64()
	if y == 0 || x == 0 {
		return
	}
	b := &rates.blocks[0]
	got := b.value * rates.power[now-1-b.last]
	if x > 1e-290 && (got/x < 1-1e-12 || got/x > 1+1e-12) {
		t.Fatalf("γ %v, step %d: rate %v, want %v", gamma, now, got, x)
	}
	px, py := rates.Place(0, 1), rates.Place(1, 1)
	if min(px.Bucket, py.Bucket) < 1 || int(max(px.Bucket, py.Bucket)) >= buckets {
		t.Fatalf("γ %v, step %d: buckets %d and %d of %d", gamma, now, px.Bucket, py.Bucket, buckets)
	}
	less := px.Bucket < py.Bucket || px.Bucket == py.Bucket && px.Key < py.Key
	if x > 1e-290 && y > 1e-290 && (x/y > 1+1e-12 || x/y < 1-1e-12) && less != (x < y) {
		t.Fatalf("γ %v, step %d: rates %v and %v go to %v and %v", gamma, now, x, y, px, py)
	}
}

// A rate and its place have these exact bits on every machine, because no product is fused with its
// sum.
func TestRatesToTheLastBit(t *testing.T) {
	var rates Rates
	rates.Reset(&policies.Scope{Blocks: 1, Steps: 400, Windows: 8}, 0.95, 0)
	for stay := range int32(40) { // of 1, 2, 3 … steps, with 1, 2, 3 … steps between
		rates.enter([]int32{0}, 10*stay-8)
		rates.leave([]int32{0}, 10*stay-8+1+stay%9)
	}
	if value, place := math.Float64bits(rates.blocks[0].value), rates.Place(0, 1); value != 0x402152db3eb72d5b || place != (Place{Bucket: 0x1013, Key: 0x256f84afa2ce0}) {
		t.Errorf("value %#x at %#x, want 0x402152db3eb72d5b in bucket 0x1013 by 0x256f84afa2ce0", value, place)
	}
}
