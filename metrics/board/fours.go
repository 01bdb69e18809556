package board

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// four is four integers of 32 bits, two in each number: one integer and 2³² times another. A sum of
// fours holds the sums of the integers, if these fit 32 bits.
type four [2]int64

// split returns the four integers.
func (f four) split() (of [4]float64) {
	for i := range of {
		of[i] = float64(f.part(i))
	}
	return of
}

// part returns one of the four integers.
func (f four) part(i int) int32 {
	x := f[i/2]
	low := int32(x)
	if i%2 == 0 {
		return low
	}
	return int32((x - int64(low)) >> 32)
}

// pack packs up to four series of equal length.
func pack[N int64 | float64](series [][]N) []four {
	packed := make([]four, len(series[0]))
	for i, values := range series {
		for r, x := range values {
			packed[r][i/2] += int64(x) << (32 * (i % 2))
		}
	}
	return packed
}

// drawsFit reports whether all sums of as many values as there are fit a four.
func drawsFit(values []int64) bool {
	for _, x := range values {
		if most := int64(math.MaxInt32 / len(values)); x > most || x < -most {
			return false
		}
	}
	return true
}

// all returns the sums of several series, one per resample.
func (d *draws) all(series [][]int64) [][]float64 {
	sums := make([][]float64, len(series))
	for i := range sums {
		sums[i] = make([]float64, d.resamples)
	}
	alone := slice.Filter(slice.Indices(len(series)), func(i int) bool { return !drawsFit(series[i]) })
	fit := slice.Filter(slice.Indices(len(series)), func(i int) bool { return drawsFit(series[i]) })
	fours := slices.Collect(slices.Chunk(fit, 4))
	packed := slice.Map(fours, func(of []int) []four {
		return pack(slice.Map(of, func(i int) []int64 { return series[i] }))
	})
	for first, drawn := range d.each() {
		for b := range len(drawn) / d.requests {
			times := drawn[b*d.requests:][:d.requests]
			for _, i := range alone {
				sums[i][first+b] = sumOf(times, series[i])
			}
			for g, of := range fours {
				four := fourSum(times, packed[g])
				for k, i := range of {
					sums[i][first+b] = four[k]
				}
			}
		}
	}
	return sums
}

// fourSum is sumOf of four series at once.
func fourSum(times []uint16, values []four) [4]float64 {
	var s four
	values = values[:len(times)]
	for i, n := range times {
		s[0] += int64(n) * values[i][0]
		s[1] += int64(n) * values[i][1]
	}
	return s.split()
}

// addLeads adds leads of four series at once.
func (p *patterns) addLeads(sums, amounts []four) {
	var total four
	for _, x := range amounts {
		total[0] += x[0]
		total[1] += x[1]
	}
	var tables [4][256]four
	for g := 0; len(amounts) > 0; g += len(tables) {
		for i := range tables {
			amounts = fourChanges(&tables[i], amounts)
		}
		rows := [4][]byte{}
		for i := range rows {
			rows[i] = p.row(g + i) // any row if its table has only zeros
		}
		a, b, c, d := rows[0][:len(sums)], rows[1][:len(sums)], rows[2][:len(sums)], rows[3][:len(sums)]
		for k := range sums {
			w, x, y, z := &tables[0][a[k]], &tables[1][b[k]], &tables[2][c[k]], &tables[3][d[k]]
			s := &sums[k]
			s[0] += total[0] - (w[0] + x[0] + y[0] + z[0])
			s[1] += total[1] - (w[1] + x[1] + y[1] + z[1])
		}
		total = four{}
	}
}

// fourChanges is byteChanges of four series at once.
func fourChanges(changes *[256]four, amounts []four) (rest []four) {
	for bit := range 8 {
		var x four // of a bit without request
		if bit < len(amounts) {
			x = amounts[bit]
		}
		low, high := changes[:1<<bit], changes[1<<bit:2<<bit]
		for i, c := range low {
			high[i] = four{c[0] + 2*x[0], c[1] + 2*x[1]}
		}
	}
	return amounts[min(8, len(amounts)):]
}
