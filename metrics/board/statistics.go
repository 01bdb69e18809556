package board

import (
	"cmp"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

const (
	// MinRequests is the least number of requests of a trace for intervals.
	MinRequests = 5
	// DefaultResamples is the default number of resamples of the requests.
	DefaultResamples = 2000
	// nominalTail is the chance that the true figure lies beyond one end of an interval.
	nominalTail = 0.025
	// mostUndefined is the share of the resamples that may leave a figure undefined: the share that
	// the nominal interval leaves out at one end. With more there is no interval, because the other
	// resamples would answer another question.
	mostUndefined = nominalTail
)

// draws are the resamples of one trace: how often each request was drawn. All policies and
// capacities of the trace share them, so ratios are paired.
type draws struct {
	seed, trace         uint64 // of the random numbers. trace is a hash of the name
	requests, resamples int
}

const (
	// timesAtOnce is about the number of times that are drawn at once. They fit into the second cache
	// of a processor.
	timesAtOnce = 1 << 18
	// leastAtOnce is the least number of resamples that are drawn at once, so that they repay their tables.
	leastAtOnce = 256
)

// newDraws returns draws of the given number of requests with replacement, resamples times. The random numbers
// depend only on the seed and the trace's name.
func newDraws(seed uint64, trace string, requests, resamples int) *draws {
	h := fnv.New64a()
	h.Write([]byte(trace))
	return &draws{seed: seed, trace: h.Sum64(), requests: requests, resamples: resamples}
}

// each draws the times of some resamples at once, and yields them with the first of these resamples.
// Resample b, request i is at (b − first) × requests + i.
func (d *draws) each() iter.Seq2[int, []uint16] {
	return func(yield func(int, []uint16) bool) {
		rng := rand.New(rand.NewPCG(d.seed, d.trace))
		n := max(leastAtOnce, timesAtOnce/d.requests)
		var room []uint16
		for first := 0; first < d.resamples; first += n {
			n := min(n, d.resamples-first)
			room = slices.Grow(room[:0], n*d.requests)
			times := room[:n*d.requests]
			clear(times)
			for b := range n {
				drawn := times[b*d.requests:][:d.requests]
				for range d.requests {
					drawn[rng.IntN(d.requests)]++
				}
			}
			if !yield(first, times) {
				return
			}
		}
	}
}

// sumOf returns the sum of values times how often each was drawn.
func sumOf(times []uint16, values []int64) float64 {
	var s int64
	for i, n := range times {
		s += int64(n) * values[i]
	}
	return float64(s)
}

// tail returns the share of the resamples that an interval leaves out at either end, for a figure
// over traces with these numbers of requests. It is that of the expanded percentile interval
// (Hesterberg, What teachers should know about the bootstrap, 2015, section 5.3). The factor √(n ÷
// (n−1)) corrects the too small variance of resamples, Student's t the unknown one. With several
// traces n is the fewest requests, and the degrees of freedom add up. TestCoverage measures how
// often such intervals cover the true figure.
func tail(requests []int) float64 {
	n, freedom := float64(slices.Min(requests)), 0
	for _, r := range requests {
		freedom += r - 1
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile(1 - nominalTail)
	return distuv.UnitNormal.CDF(-t * math.Sqrt(n/(n-1)))
}

// interval returns the 95 % interval of a statistic's resamples, without a tail at either end
// (bounds). Both ends are nil if more resamples than mostUndefined are undefined. An infinite end
// is nil too.
func interval(series []float64, tail float64) (low, high *float64) {
	l, h := bounds(series, tail)
	return Number(l), Number(h)
}

// bounds returns the k-th smallest and the k-th largest resample, k = ⌊tail·n⌋. It does not
// interpolate, so the interval of 1/x is the reciprocal of that of x. ±Inf are ordinary
// values. NaN are dropped. If more than mostUndefined are NaN, both ends are NaN.
func bounds(series []float64, tail float64) (low, high float64) {
	var below, above [512]float64 // the values beyond two limits
	nBelow, atLeast, nAbove, atMost, lost := 0, 0, 0, 0, 0
	least, most := limits(series, tail)
	for _, x := range series {
		if least < x && x < most {
			continue
		}
		switch {
		case x < least:
			below[nBelow%len(below)] = x
			nBelow++
		case x == least:
			atLeast++
		}
		switch {
		case x > most:
			above[nAbove%len(above)] = x
			nAbove++
		case x == most:
			atMost++
		}
		if math.IsNaN(x) {
			lost++
		}
	}
	defined := len(series) - lost
	if defined == 0 || float64(lost) > mostUndefined*float64(len(series)) {
		return math.NaN(), math.NaN()
	}
	out := int(tail * float64(defined))
	if min(nBelow+atLeast, nAbove+atMost) <= out || max(nBelow, nAbove) > len(below) {
		all := slices.DeleteFunc(slices.Clone(series), math.IsNaN)
		return nth(all, out), nth(all, len(all)-1-out)
	}
	low, high = least, most
	if out < nBelow {
		low = nth(below[:nBelow], out)
	}
	if out < nAbove {
		high = nth(above[:nAbove], nAbove-1-out)
	}
	return low, high
}

// limits guesses two limits from the first values, which may be NaN. A little more than a tail of the
// series is beyond each.
func limits(series []float64, tail float64) (least, most float64) {
	var first [128]float64
	n := copy(first[:], series)
	mean := tail * float64(n)
	k := int(mean + 3*math.Sqrt(mean) + 1)
	if k >= n {
		return math.NaN(), math.NaN()
	}
	return nth(first[:n], k), nth(first[:n], n-1-k)
}

// nth returns the element that sorted values have at index n. It changes their order (Hoare,
// Algorithm 65: FIND, 1961). If a value is NaN, the element may be another.
func nth(values []float64, n int) float64 {
	low, high := 0, len(values)-1
	for low < high {
		pivot := values[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for values[i] < pivot {
				i++
			}
			for values[j] > pivot {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i, j = i+1, j-1
			}
		}
		switch { // values[low..j] ≤ pivot ≤ values[i..high]
		case n <= j:
			high = j
		case n >= i:
			low = i
		default:
			return values[n]
		}
	}
	return values[n]
}

// Significant is the p below which two policies count as different.
const Significant = 0.05

// decidable reports whether n requests can distinguish a pair among pairs that are tested together.
// The smallest p of n requests is 2 ÷ 2ⁿ. Holm's correction multiplies it by pairs.
func decidable(n, pairs int) bool {
	return float64(pairs)*math.Ldexp(2, -n) < Significant
}

// fewestDecidable returns the smallest n that is decidable.
func fewestDecidable(pairs int) int {
	n := 1
	for !decidable(n, pairs) {
		n++
	}
	return n
}

// holm corrects p-values for their number (Holm, Scandinavian Journal of Statistics 6,
// 1979): the chance of one false difference or more is at most that of one test.
func holm(ps []float64) []float64 {
	order := slice.Indices(len(ps))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	corrected, least := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		least = max(least, min(1, ps[i]*float64(len(ps)-rank)))
		corrected[i] = least
	}
	return corrected
}

// alphabet has the letters of groups.
const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// mostGroups bounds the groups that lettersOf keeps while it works.
const mostGroups = 20 * len(alphabet)

// lettersOf returns the compact letter display of n items, some pairs of which are different. Two
// items share a letter if and only if they are not different. Each letter is a largest group of
// items without a difference (insert-and-absorb: Piepho, Journal of Computational and Graphical
// Statistics 13, 2004). Letters follow the order of the items. It returns nil if there are more
// groups than letters.
func lettersOf(n int, different [][2]int) []string {
	groups := [][]bool{slices.Repeat([]bool{true}, n)}
	for _, pair := range different {
		var kept, halves [][]bool
		for _, g := range groups {
			if !g[pair[0]] || !g[pair[1]] {
				kept = append(kept, g)
				continue
			}
			for _, out := range pair {
				half := slices.Clone(g)
				half[out] = false
				halves = append(halves, half)
			}
		}
		for _, half := range halves {
			if !slices.ContainsFunc(kept, func(g []bool) bool { return within(half, g) }) {
				kept = append(kept, half)
			}
		}
		if groups = kept; len(groups) > mostGroups {
			return nil
		}
	}
	if len(groups) > len(alphabet) {
		return nil
	}
	slice.Sort(groups, func(a, b []bool) int { // the one with the first item that the other lacks
		for i := range a {
			if c := result.CompareBool(b[i], a[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	letters := make([]string, n)
	for k, g := range groups {
		for i, in := range g {
			if in {
				letters[i] += alphabet[k : k+1]
			}
		}
	}
	return letters
}

// within reports whether all items of a are in b.
func within(a, b []bool) bool {
	for i := range a {
		if a[i] && !b[i] {
			return false
		}
	}
	return true
}
