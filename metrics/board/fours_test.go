package board

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// sums returns the sum of the drawn requests' values, one per resample. It is the slow twin of all.
func (d *draws) sums(values []int64) []float64 {
	sums := make([]float64, 0, d.resamples)
	for _, drawn := range d.each() {
		for ; len(drawn) > 0; drawn = drawn[d.requests:] {
			sums = append(sums, sumOf(drawn[:d.requests], values))
		}
	}
	return sums
}

// checkSums compares the sums of several series with those of each alone.
func checkSums(t *testing.T, d *draws, series [][]int64) {
	t.Helper()
	got := slice.Map(series, func([]int64) []float64 { return make([]float64, d.resamples) })
	d.all(series, got)
	for i, values := range series {
		if want := d.sums(values); !slices.Equal(got[i], want) {
			t.Fatalf("%d requests: series %d has the sums %v, expected %v", d.requests, i, got[i], want)
		}
	}
}

// The sums of four series at once are those of each alone. Some values do not fit 32 bits.
func TestFourSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 5, 40, 70_000} {
		var series [][]int64
		for i := range 11 {
			most := int64(math.MaxInt32 / n)
			values := make([]int64, n)
			for r := range values {
				values[r] = rng.Int64N(2*most+1) - most
			}
			switch i {
			case 2:
				values[n/2] = most + 1
			case 5:
				values[0] = math.MaxInt64 / int64(n)
			case 7:
				values = slices.Repeat([]int64{most}, n)
			case 8:
				values = slices.Repeat([]int64{-most}, n)
			}
			series = append(series, values)
		}
		checkSums(t, newDraws(1, "a", n, 30), series)
	}
}

// FuzzFourSums compares sums of any values and numbers of requests and resamples.
func FuzzFourSums(f *testing.F) {
	f.Add(uint64(1), uint16(60), uint16(300), int64(1000))
	f.Add(uint64(2), uint16(5), uint16(1), int64(math.MaxInt32))
	f.Fuzz(func(t *testing.T, seed uint64, requests, resamples uint16, most int64) {
		n, most := 1+int(requests)%3000, max(1, most)
		rng := rand.New(rand.NewPCG(seed, 1))
		series := make([][]int64, 1+seed%6)
		for i := range series {
			series[i] = make([]int64, n)
			for r := range series[i] {
				series[i][r] = rng.Int64N(most) / int64(n)
			}
		}
		checkSums(t, newDraws(seed, "a", n, 1+int(resamples)%600), series)
	})
}

// The leads of four series at once are those of each alone, and are added to sums.
func TestFourLeads(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 8, 17, 24, 31, 33, 64, 65, 100} {
		for number := range 4 {
			series := make([][]float64, 1+number)
			for i := range series {
				for range n {
					series[i] = append(series[i], float64(rng.IntN(math.MaxInt32/n)-math.MaxInt32/2/n))
				}
			}
			trace := &traceSwaps{seed: 7, trace: "a", requests: n, width: (n + 7) / 8}
			packed, want := pack(series), make([]float64, blockSize)
			trace.blocks(blockSize+100, func(first int, p *patterns) {
				sums := make([]four, p.count)
				p.addLeads(sums, packed)
				p.addLeads(sums, packed)
				for i := range series {
					p.leads(want[:p.count], series[i])
					for k, sum := range sums {
						if got := float64(sum.part(i)); got != 2*want[k] {
							t.Fatalf("%d requests, series %d, exchange %d: twice the lead is %v, expected %v", n, i, first+k, got, 2*want[k])
						}
					}
				}
			})
		}
	}
}
