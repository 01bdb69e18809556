package board

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// MinRequests is the fewest requests of a trace that intervals are made from.
	MinRequests = 5
	// DefaultResamples is how often requests are resampled.
	DefaultResamples = 2000
	// nominalTail is the chance that the truth lies beyond one end of an interval.
	nominalTail = 0.025
	// mostUndefined is the share of the resamples that may leave a figure undefined: as much
	// as the nominal interval leaves out at an end. With more there is no interval, as those that are
	// left would be of another question.
	mostUndefined = nominalTail
)

// draws are the resamples of one trace: how often each request was drawn. All policies
// and capacities of the trace share them, so ratios are paired.
type draws struct {
	requests int
	times    []uint16 // resample b, request i at b × requests + i
}

// newDraws draws as many requests as there are, with replacement, resamples times. The
// stream of random numbers depends on the seed and the trace's name alone.
func newDraws(seed uint64, trace string, requests, resamples int) *draws {
	h := fnv.New64a()
	h.Write([]byte(trace))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	d := &draws{requests, make([]uint16, requests*resamples)}
	for b := range resamples {
		for range requests {
			d.times[b*requests+rng.IntN(requests)]++
		}
	}
	return d
}

// sums returns the sum of the drawn requests' values, one per resample.
func (d *draws) sums(values []int64) []float64 {
	sums := make([]float64, len(d.times)/d.requests)
	for b := range sums {
		var s int64
		for i, times := range d.times[b*d.requests : (b+1)*d.requests] {
			s += int64(times) * values[i]
		}
		sums[b] = float64(s)
	}
	return sums
}

// tail is the share of the resamples that an interval leaves out at either end, for a
// figure over traces of so many requests: the expanded percentile interval of Hesterberg
// (What teachers should know about the bootstrap, 2015, section 5.3), who makes up for
// what resamples of few vary too little, by √(n ÷ (n−1)), and for the unknown variance, by
// Student's t. Of several traces n is the fewest, and the degrees of freedom add up.
// TestCoverage says how often such intervals hold the truth.
func tail(requests []int) float64 {
	n, freedom := float64(slices.Min(requests)), 0
	for _, r := range requests {
		freedom += r - 1
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile(1 - nominalTail)
	return distuv.UnitNormal.CDF(-t * math.Sqrt(n/(n-1)))
}

// requests lists how many requests each trace of the cells has; nil where one has too few
// for intervals.
func (g *grid) requests(refs []CellRef) []int {
	var requests []int
	seen := map[string]bool{}
	for _, r := range refs {
		if seen[r.Trace] {
			continue
		}
		d := g.draws[r.Trace]
		if d == nil {
			return nil
		}
		seen[r.Trace], requests = true, append(requests, d.requests)
	}
	return requests
}

// tail is that of figures over the cells; the nominal one where they have no resamples.
func (g *grid) tail(refs []CellRef) float64 {
	requests := g.requests(refs)
	if requests == nil {
		return nominalTail
	}
	return tail(requests)
}

// interval is the 95 % interval of a statistic's resamples, without a tail at either end
// (bounds). It is nil where more of them than mostUndefined are undefined; an infinite end
// is nil, too.
func interval(series []float64, tail float64) (low, high *float64) {
	l, h := bounds(series, tail)
	return Number(l), Number(h)
}

// bounds are the ends of the 95 % interval: as many resamples lie below the lower as above
// the upper. They are resamples themselves, nothing is interpolated, so that those of the
// inverse are the inverse ones, and infinite ones are values like others. Undefined ones
// are left out; where they are more than mostUndefined, both ends are NaN.
func bounds(series []float64, tail float64) (low, high float64) {
	defined := slices.DeleteFunc(slices.Clone(series), math.IsNaN)
	if lost := len(series) - len(defined); len(defined) == 0 || float64(lost) > mostUndefined*float64(len(series)) {
		return math.NaN(), math.NaN()
	}
	slices.Sort(defined)
	out := int(tail * float64(len(defined)))
	return defined[out], defined[len(defined)-1-out]
}
