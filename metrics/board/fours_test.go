package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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

// The sums of four series at once are those of each alone, with draws that are kept and with those that
// are drawn again. Some values do not fit 32 bits.
func TestFourSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 5, 40, 70_000} {
		var series [][]int64
		for i := range 11 {
			most := int64(most32 / n)
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
		again, kept := newDraws(1, "a", n, 30), newDraws(1, "a", n, 30)
		kept.keep()
		var want [][]float64
		for _, values := range series {
			want = append(want, kept.sums(values))
		}
		for name, d := range map[string]*draws{"again": again, "kept": kept} {
			if got := d.all(series); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%d requests, drawn %s: other sums", n, name)
			}
		}
		if groups := groupsOf(series, drawsFit); len(groups) != 2+3 {
			t.Errorf("%d requests: %d groups, expected 2 of one series and 3 of up to four", n, len(groups))
		}
	}
}

// The leads of four series at once are those of each alone. Some amounts are fractions, or do not fit
// 32 bits.
func TestFourLeads(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{17, 24, 31, 33, 64, 65, 100} {
		var series [][]float64
		for i := range 11 {
			amounts := make([]float64, n)
			for r := range amounts {
				amounts[r] = float64(rng.IntN(2*most32/n) - most32/n)
			}
			switch i {
			case 1:
				amounts[n-1] += 0.5
			case 4:
				amounts[0] = math.Inf(1)
			case 6:
				amounts[0] = most32 + 1
			case 9:
				amounts[0] = math.NaN()
			}
			series = append(series, amounts)
		}
		trace := &traceSwaps{seed: 7, trace: "a", requests: n, width: (n + 7) / 8}
		l, room, want := newLeads(series), make([]four, blockSize), make([]float64, blockSize)
		if len(l.groups) != 4+2 {
			t.Errorf("%d requests: %d groups, expected 4 of one series and 2 of up to four", n, len(l.groups))
		}
		got := make([][]float64, len(series))
		for i := range got {
			got[i] = make([]float64, blockSize)
		}
		trace.blocks(blockSize+100, func(first int, p *patterns) {
			l.fill(got, p, room)
			for i := range series {
				p.leads(want[:p.count], series[i])
				if fmt.Sprint(got[i][:p.count]) != fmt.Sprint(want[:p.count]) {
					t.Errorf("%d requests, series %d, exchanges from %d: other leads", n, i, first)
				}
			}
		})
	}
}
