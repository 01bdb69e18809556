package parquet

import (
	"math/rand/v2"
	"slices"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// deltaSample makes values whose differences have 0 to 32 bits.
func deltaSample(r *rand.Rand) []int32 {
	values := make([]int32, r.IntN(1500))
	limit := int32(1) << r.IntN(31)
	for i := range values {
		switch r.IntN(40) {
		case 0:
			limit = int32(1) << r.IntN(31)
		case 1:
			values[i] = int32(r.Uint32()) // any value, so that differences overflow
			continue
		}
		values[i] = r.Int32N(limit)
		if limit < 4 && i > 0 {
			values[i] = values[i-1] + limit // differences of 0 bits
		}
	}
	return values
}

// Values taken in parts equal those that the library decodes at once.
func TestDeltasMatchLibrary(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		values := deltaSample(r)
		src, err := parquetgo.DeltaBinaryPacked.EncodeInt32(nil, values)
		fatal.If(t, err)
		want, err := parquetgo.DeltaBinaryPacked.DecodeInt32(nil, slices.Grow(src, 64))
		if err != nil || !slices.Equal(want, values) {
			t.Fatalf("seed %d: the library decodes other values, error %v", seed, err)
		}
		src = slices.Grow(slices.Clip(src), r.IntN(2)*1024)
		var d deltas
		if err := d.begin(src, len(values)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := make([]int32, len(values))
		for at := 0; at < len(got); {
			n := 1 + r.IntN(min(len(got)-at, 1+r.IntN(700)))
			if err := d.take(got[at : at+n]); err != nil {
				t.Fatalf("seed %d: value %d: %v", seed, at, err)
			}
			at += n
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: other values", seed)
		}
		if err := d.begin(src, len(values)+1); err == nil {
			t.Fatalf("seed %d: %d values of %d without an error", seed, len(values)+1, len(values))
		}
		for range 20 { // damage gives an error or other values, never a panic
			cut := slices.Clone(src[:r.IntN(len(src)+1)])
			if len(cut) > 0 {
				cut[r.IntN(len(cut))] ^= 1 << r.IntN(8)
			}
			if d.begin(cut, len(values)) == nil {
				_ = d.take(got)
			}
		}
	}
}
