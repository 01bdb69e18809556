package board

import "math"

// four is four integers of 32 bits, two in each number: one integer and 2³² times another. A sum of
// fours holds the sums of the integers, if these fit 32 bits.
type four [2]int64

// split returns the four integers.
func (f four) split() (of [4]float64) {
	for i, x := range f {
		low := int64(int32(x))
		of[2*i], of[2*i+1] = float64(low), float64((x-low)>>32)
	}
	return of
}

// group is up to four series of equal length whose sums are made at once.
type group struct {
	of     []int  // indices of the series
	packed []four // nil for one series whose sums may not fit
}

// groupsOf groups the series that fit, and leaves each other alone.
func groupsOf[N int64 | float64](series [][]N, fits func([]N) bool) (groups []group) {
	open := -1 // the group that has room
	for i, values := range series {
		if !fits(values) {
			groups = append(groups, group{of: []int{i}})
			continue
		}
		if open < 0 || len(groups[open].of) == 4 {
			open, groups = len(groups), append(groups, group{packed: make([]four, len(values))})
		}
		g := &groups[open]
		k := len(g.of)
		for r, x := range values {
			g.packed[r][k/2] += int64(x) << (32 * (k % 2))
		}
		g.of = append(g.of, i)
	}
	return groups
}

// most32 is the bound of sums that fit a four.
const most32 = math.MaxInt32

// sumFits reports whether the values are integers, and all signed sums of them fit a four.
func sumFits(values []float64) bool {
	sum := 0.0
	for _, x := range values {
		if x != math.Trunc(x) {
			return false
		}
		sum += math.Abs(x)
	}
	return sum <= most32
}

// drawsFit reports whether all sums of as many values as there are fit a four.
func drawsFit(values []int64) bool {
	for _, x := range values {
		if most := int64(most32 / len(values)); x > most || x < -most {
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
	groups := groupsOf(series, drawsFit)
	for first, drawn := range d.each() {
		for _, g := range groups {
			for b := range len(drawn) / d.requests {
				times := drawn[b*d.requests:][:d.requests]
				if g.packed == nil {
					sums[g.of[0]][first+b] = sumOf(times, series[g.of[0]])
					continue
				}
				of := fourSum(times, g.packed)
				for k, i := range g.of {
					sums[i][first+b] = of[k]
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

// leads are the leads of several series by pattern, as patterns.leads makes of each.
type leads struct {
	series [][]float64
	groups []group
}

func newLeads(series [][]float64) *leads { return &leads{series, groupsOf(series, sumFits)} }

// fill makes the leads of all series, with room for as many fours as there are patterns.
func (l *leads) fill(to [][]float64, p *patterns, room []four) {
	for _, g := range l.groups {
		if g.packed == nil {
			p.leads(to[g.of[0]][:p.count], l.series[g.of[0]])
			continue
		}
		sums := room[:p.count]
		p.fourLeads(sums, g.packed)
		for k, sum := range sums {
			of := sum.split()
			for j, i := range g.of {
				to[i][k] = of[j]
			}
		}
	}
}

// fourLeads is leads of four series at once.
func (p *patterns) fourLeads(sums, amounts []four) {
	var total four
	for _, x := range amounts {
		total[0] += x[0]
		total[1] += x[1]
	}
	for k := range sums {
		sums[k] = total
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
			s[0] -= w[0] + x[0] + y[0] + z[0]
			s[1] -= w[1] + x[1] + y[1] + z[1]
		}
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
