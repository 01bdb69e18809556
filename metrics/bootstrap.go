package metrics

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// MinRequests is the fewest requests of a trace that intervals are made from.
	MinRequests = 5
	// DefaultResamples is how often requests are resampled.
	DefaultResamples = 2000
	// mostUndefined is the share of the resamples that may leave a figure undefined: as much
	// as an interval leaves out at an end. With more there is no interval, as those that are
	// left would be of another question.
	mostUndefined = 0.025
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

// interval is the 95 % percentile interval of a statistic's resamples (bounds). It is nil
// where more of them than mostUndefined are undefined; an infinite end is nil, too.
func interval(series []float64) (low, high *float64) {
	l, h := bounds(series)
	return number(l), number(h)
}

// bounds are the ends of the 95 % percentile interval: as many resamples lie below the lower
// as above the upper. They are resamples themselves, nothing is interpolated, so that those
// of the inverse are the inverse ones, and infinite ones are values like others. Undefined
// ones are left out; where they are more than mostUndefined, both ends are NaN.
func bounds(series []float64) (low, high float64) {
	defined := slices.DeleteFunc(slices.Clone(series), math.IsNaN)
	if lost := len(series) - len(defined); len(defined) == 0 || float64(lost) > mostUndefined*float64(len(series)) {
		return math.NaN(), math.NaN()
	}
	slices.Sort(defined)
	out := int(0.025 * float64(len(defined)))
	return defined[out], defined[len(defined)-1-out]
}

// indistinct says whether the paired log ratio of two figures' resamples has 0 in its
// 95 % interval: the requests at hand do not tell the two apart.
func indistinct(a, b []float64) bool {
	if a == nil || b == nil {
		return false
	}
	logs := make([]float64, len(a))
	for i := range a {
		if a[i] != b[i] { // equal ones, 0 among them, do not differ
			logs[i] = math.Log(a[i]) - math.Log(b[i])
		}
	}
	low, high := bounds(logs)
	return low <= 0 && high >= 0
}
