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

// all fills in the sums of several series, one per resample.
func (d *draws) all(series [][]int64, sums [][]float64) {
	alone := slice.Filter(slice.Indices(len(series)), func(i int) bool { return !drawsFit(series[i]) })
	fit := slice.Filter(slice.Indices(len(series)), func(i int) bool { return drawsFit(series[i]) })
	fours := slices.Collect(slices.Chunk(fit, 4))
	var t timesTables
	for first, drawn := range d.each() {
		for _, i := range alone {
			for b := range len(drawn) / d.requests {
				sums[i][first+b] = sumOf(drawn[b*d.requests:][:d.requests], series[i])
			}
		}
		t.encode(drawn, d.requests)
		for _, of := range fours {
			packed := pack(slice.Map(of, func(i int) []int64 { return series[i] }))
			for b, x := range t.sums(packed) {
				four := x.split()
				for k, i := range of {
					sums[i][first+b] = four[k]
				}
			}
		}
	}
}

// timesTables sums series over the drawn requests of some resamples. Four requests share a byte, with how
// often each was drawn, 3 at most. So a table of 256 sums replaces four products. The requests
// that were drawn more often are added one by one.
type timesTables struct {
	resamples int
	bytes     [][]byte // of each four requests, by resample
	more      []moreTimes
	fours     []four // the sums
}

// moreTimes is the number of times above 3 that a request was drawn in a resample.
type moreTimes struct{ resample, request, times int32 }

// encode sets the resamples. drawn has how often each request was drawn in each.
func (t *timesTables) encode(drawn []uint16, requests int) {
	t.resamples = len(drawn) / requests
	t.more = t.more[:0]
	t.bytes = t.bytes[:0]
	for range 4 * ((requests + 15) / 16) { // a multiple of 4
		t.bytes = append(t.bytes, make([]byte, t.resamples))
	}
	for b := range t.resamples {
		for r, n := range drawn[b*requests:][:requests] {
			if n > 3 {
				t.more = append(t.more, moreTimes{int32(b), int32(r), int32(n) - 3})
				n = 3
			}
			t.bytes[r/4][b] |= byte(n << (2 * (r % 4)))
		}
	}
}

// sums returns the sums of four series by resample. They are valid until the next call.
func (t *timesTables) sums(values []four) []four {
	sums := slices.Grow(t.fours[:0], t.resamples)[:t.resamples]
	clear(sums)
	t.fours = sums
	for _, m := range t.more {
		x := values[m.request]
		sums[m.resample][0] += int64(m.times) * x[0]
		sums[m.resample][1] += int64(m.times) * x[1]
	}
	var tables [4][256]four
	for g := 0; g < len(t.bytes); g += len(tables) {
		for i := range tables {
			values = timesOf(&tables[i], values)
		}
		a, b, c, d := t.bytes[g][:len(sums)], t.bytes[g+1][:len(sums)], t.bytes[g+2][:len(sums)], t.bytes[g+3][:len(sums)]
		for k := range sums {
			w, x, y, z := &tables[0][a[k]], &tables[1][b[k]], &tables[2][c[k]], &tables[3][d[k]]
			s := &sums[k]
			s[0] += w[0] + x[0] + y[0] + z[0]
			s[1] += w[1] + x[1] + y[1] + z[1]
		}
	}
	return sums
}

// timesOf sums the values of the first four requests, each as often as two bits say. It returns the
// values of the others.
func timesOf(sums *[256]four, values []four) (rest []four) {
	for bits := 0; bits < 8; bits += 2 {
		var x four // of bits without request
		if i := bits / 2; i < len(values) {
			x = values[i]
		}
		n := 1 << bits
		for k := n; k < 4*n; k++ {
			sums[k] = four{sums[k-n][0] + x[0], sums[k-n][1] + x[1]}
		}
	}
	return values[min(4, len(values)):]
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
