package board

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// The tests of pairs decide most exchanges by bounds. In each cell, slope × lead is near the statistic.
// The sum over all cells of a trace takes one weight for each request. Weights are rounded to integers,
// so that four sums are made at once. All errors are bounded, and the exchanges for which the
// bounds do not suffice stay open.
//
// Two facts bound the errors. A log ratio is 2 artanh(lead ÷ sum), where sum is A + B. A lead is at
// most the sum of |A − B| over the requests.

// cellBound bounds the statistic of a test in one cell.
type cellBound struct {
	of       statistic
	sum      float64 // A + B
	lead     float64 // the largest of all exchanges
	requests int
}

func (c sides) bound(of statistic) cellBound {
	b := cellBound{of: of, sum: c.sum(), requests: len(c.a)}
	for i := range c.a {
		b.lead += math.Abs(c.a[i] - c.b[i])
	}
	return b
}

// share is the largest lead as a share of the sum.
func (b cellBound) share() float64 { return min(1, b.lead/b.sum) }

// most is the statistic of the largest lead.
func (b cellBound) most() float64 {
	if b.of == difference || b.lead == 0 {
		return b.lead
	}
	return 2 * math.Atanh(b.share())
}

// slope returns the factor of leads that is near the statistic.
func (b cellBound) slope() float64 {
	if b.of == difference || b.lead == 0 {
		return 1
	}
	const chord = 0.75 // from the tangent to the chord of the largest lead. It is best for a cubic function
	return (1-chord)*2/b.sum + chord*b.most()/b.lead
}

// off bounds |statistic − slope × lead| in all exchanges, with the rounding of the statistic.
func (b cellBound) off(slope float64) float64 {
	if b.lead == 0 {
		return 0
	}
	off, rounding := math.Abs(b.most()-slope*b.lead), float64(b.requests+16)*roundingBit
	if b.of == difference {
		return off + rounding*b.lead
	}
	if relative := slope * b.sum; relative > 2 { // the error may be larger at the point of equal slopes
		x := min(b.share(), math.Sqrt(1-2/relative))
		off = max(off, relative*x-2*math.Atanh(x))
	}
	return off + rounding/(1-b.share())
}

// roundingBit is more than the rounding of four operations relative to their result.
const roundingBit = 1. / (1 << 50)

// boundByPolicy decides exchanges of tests by one sum for each policy. All tests have the same slopes
// but for a factor, so the bounds are wide for policies that are much alike. It returns the tests that
// it does not decide.
func (s *swaps) boundByPolicy(amounts [][][]float64, tests []*pairTest, of statistic) []*pairTest {
	slopes, sizes := make([]float64, len(amounts[0])), make([]float64, len(amounts))
	for k := range slopes {
		slopes[k] = 1
		cells := slice.Map(amounts, func(cells [][]float64) float64 { return total(cells[k]) })
		if mean := total(cells) / float64(len(cells)); of == logRatio && mean > 0 {
			slopes[k] = 1 / mean
		}
		for i, x := range cells {
			sizes[i] += slopes[k] * x
		}
	}
	most := slices.Repeat([]float64{slices.Max(sizes)}, len(sizes)) // for equal units
	sums := s.sums(most, func(i int, weights []float64, first, end int) {
		for k := first; k < end; k++ {
			for r, x := range amounts[i][k] {
				weights[r] += slopes[k] * x
			}
		}
	})
	columns := slice.Map(slice.Indices(len(amounts)), sums.column)
	inParallel(len(tests), func(i, _ int) {
		test := tests[i]
		a, b := test.pair[0], test.pair[1]
		factor, off := test.bound(slopes)
		test.decide(columns[a], columns[b], factor*sums.units[a], off+factor*(sums.offs[a]+sums.offs[b]))
	})
	return slice.Filter(tests, func(test *pairTest) bool { return test.open != nil })
}

// bound returns the factor of the slopes that fits a test, and the bound of its error.
func (test *pairTest) bound(slopes []float64) (factor, off float64) {
	bounds, most, leads := make([]cellBound, len(slopes)), 0.0, 0.0
	for k := range bounds {
		b := test.cell(k).bound(test.of)
		bounds[k], most, leads = b, most+b.most(), leads+slopes[k]*b.lead
	}
	if leads == 0 {
		return 1, 0
	}
	factor = most / leads
	for k, b := range bounds {
		off += b.off(factor * slopes[k])
	}
	return factor, off
}

// boundByPair decides exchanges of tests by a sum for each.
func (s *swaps) boundByPair(tests []*pairTest) {
	slopes, most, offs := make([][]float64, len(tests)), make([]float64, len(tests)), make([]float64, len(tests))
	inParallel(len(tests), func(i, _ int) {
		for k := range tests[i].a {
			b := tests[i].cell(k).bound(tests[i].of)
			slope := b.slope()
			slopes[i] = append(slopes[i], slope)
			most[i] += slope * b.lead
			offs[i] += b.off(slope)
		}
	})
	sums := s.sums(most, func(i int, weights []float64, first, end int) {
		for k := first; k < end; k++ {
			for r, x := range tests[i].cell(k).differences() {
				weights[r] += slopes[i][k] * x
			}
		}
	})
	none := make([]int32, s.count)
	inParallel(len(tests), func(i, _ int) {
		tests[i].decide(sums.column(i), none, sums.units[i], offs[i]+sums.offs[i])
	})
}

// decide counts the exchanges that are extreme, and lists the open ones. The statistic of exchange k
// lies within off of unit × (a[k] − b[k]).
func (test *pairTest) decide(a, b []int32, unit, off float64) {
	off += 1e-9*off + 1e-12*math.Abs(test.limit) // the rounding of all bounds
	low, high := (test.limit-off)/unit, (test.limit+off)/unit
	least, most := int32(0), int32(0)
	b = b[:len(a)]
	for k, x := range a {
		d := x - b[k]
		least, most = min(least, d), max(most, d)
	}
	test.extreme, test.open = 0, nil
	if float64(max(most, -least)) < low {
		return
	}
	for k, x := range a {
		switch d := math.Abs(float64(x - b[k])); {
		case d >= high:
			test.extreme++
		case !(d < low): // an unknown bound decides nothing
			test.open = append(test.open, int32(k))
		}
	}
}

// mostSum bounds the integers of sums, so that the difference of two fits 32 bits, with rounding.
const mostSum = 1 << 29

// exchangeSums are sums of signed weights for all exchanges. They are integers, times a unit.
type exchangeSums struct {
	units []float64
	offs  []float64 // bounds of the errors by rounding
	fours [][]four  // of each four series, by exchange
}

// sums returns the sums of series for all exchanges. A series has the largest sum most. weigh adds its
// weights of the cells from first to end, by request.
func (s *swaps) sums(most []float64, weigh func(i int, weights []float64, first, end int)) *exchangeSums {
	sums := &exchangeSums{offs: make([]float64, len(most)), fours: make([][]four, (len(most)+3)/4)}
	for i, x := range most {
		_, e := math.Frexp(x / mostSum)
		sums.units = append(sums.units, math.Ldexp(1, e))
		if !(x < math.Inf(1)) {
			sums.offs[i] = math.Inf(1)
		}
	}
	for g := range sums.fours {
		sums.fours[g] = make([]four, s.count)
	}
	for _, t := range s.traces {
		packed := make([][]four, len(sums.fours))
		inParallel(len(packed), func(g, _ int) {
			var series [][]float64
			for i := 4 * g; i < min(4*g+4, len(most)); i++ {
				weights := make([]float64, t.requests)
				if !math.IsInf(sums.offs[i], 1) {
					weigh(i, weights, t.first, t.end)
				}
				for r, x := range weights {
					weights[r] = math.Round(x / sums.units[i])
					sums.offs[i] += math.Abs(x-weights[r]*sums.units[i]) + float64(t.end-t.first)*roundingBit*math.Abs(x)
				}
				series = append(series, weights)
			}
			packed[g] = pack(series)
		})
		t.blocks(s.count, func(first int, p *patterns) {
			inParallel(len(packed), func(g, _ int) { p.addLeads(sums.fours[g][first:][:p.count], packed[g]) })
		})
	}
	return sums
}

// column returns the sums of a series by exchange.
func (sums *exchangeSums) column(i int) []int32 {
	return slice.Map(sums.fours[i/4], func(f four) int32 { return f.part(i % 4) })
}

// total returns the sum of values.
func total(values []float64) float64 { return slice.Sum(values, func(x float64) float64 { return x }) }
