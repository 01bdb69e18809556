package board

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

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
	requests int
	times    []uint16 // resample b, request i at b × requests + i
}

// sampler draws the resamples of traces. All grids of one comparison share them.
type sampler struct {
	seed  uint64
	count int
	drawn map[string]*draws
}

func newSampler(o Options) *sampler {
	return &sampler{o.Seed, cmp.Or(o.Resamples, DefaultResamples), map[string]*draws{}}
}

// draws returns the resamples of a trace with a number of requests.
func (s *sampler) draws(trace string, requests int) *draws {
	if d := s.drawn[trace]; d == nil || d.requests != requests {
		s.drawn[trace] = newDraws(s.seed, trace, requests, s.count)
	}
	return s.drawn[trace]
}

// newDraws draws the given number of requests with replacement, resamples times. The random numbers
// depend only on the seed and the trace's name.
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

// resamples returns the number of resamples.
func (d *draws) resamples() int { return len(d.times) / d.requests }

// sums returns the sum of the drawn requests' values, one per resample.
func (d *draws) sums(values []int64) []float64 {
	sums := make([]float64, d.resamples())
	for b := range sums {
		var s int64
		for i, times := range d.times[b*d.requests : (b+1)*d.requests] {
			s += int64(times) * values[i]
		}
		sums[b] = float64(s)
	}
	return sums
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
	defined := slices.DeleteFunc(slices.Clone(series), math.IsNaN)
	if lost := len(series) - len(defined); len(defined) == 0 || float64(lost) > mostUndefined*float64(len(series)) {
		return math.NaN(), math.NaN()
	}
	slices.Sort(defined)
	out := int(tail * float64(len(defined)))
	return defined[out], defined[len(defined)-1-out]
}

const (
	// Significant is the p below which two policies count as different.
	Significant = 0.05
	// mostRequests is the largest number of requests whose 2ⁿ exchanges are all tried.
	mostRequests = 16
	// randomSwaps is the number of random exchanges that are tried with more requests. With the
	// observed one they make 2¹⁶, so the smallest p is 1.5·10⁻⁵.
	randomSwaps = 1<<mostRequests - 1
	// tieTolerance is the relative difference below which two statistics are equal. It
	// hides the rounding of logarithms, which differs between processors.
	tieTolerance = 1e-9
)

// sides is the amounts of two policies in one cell, by request. The amounts of a policy sum to its
// figure in the cell: its misses, its lost blocks or its time.
type sides struct {
	trace string
	a, b  []float64
}

// statistic is a comparison of A and B that is 0 if they are equal, odd in A − B, and additive over
// cells.
type statistic int

const (
	// logRatio is the logarithm of A ÷ B. Its mean over cells is the logarithm of the
	// geometric mean of the ratios.
	logRatio statistic = iota
	// difference is A − B.
	difference
)

// mostFactors is the number of ratios that are multiplied before the logarithm. It is small enough
// that no product overflows.
const mostFactors = 16

// swaps are the exchanges of a paired permutation test. If two policies do not differ, their labels
// can be exchanged in any request. Each of the 2ⁿ exchanges is then as likely as the observed
// labels. (Fisher, The Design of Experiments, 1935, section 21. Smucker, Allan and Carterette, CIKM
// 2007, section 3.3, for rankings.) All cells of a trace exchange a request together, because they
// replay the same request.
type swaps struct {
	traces []*traceSwaps
	count  int
	exact  bool // all 2ⁿ
}

// traceSwaps are the exchanges of one trace's requests.
type traceSwaps struct {
	trace    string
	requests int
	// patterns has width bytes for each pattern. Bit i is set if request i is exchanged.
	patterns []byte
	width    int
	// of is the pattern of each of swaps.count exchanges.
	of []uint32
}

// newSwaps makes the exchanges of some cells, which are sorted by trace. It makes all of them for
// up to mostRequests requests, otherwise random ones. The random numbers depend only on the seed
// and the trace's name.
func newSwaps(seed uint64, cells []sides) *swaps {
	s, n := &swaps{count: randomSwaps}, 0
	for i := range cells {
		if i == 0 || cells[i].trace != cells[i-1].trace {
			s.traces = append(s.traces, &traceSwaps{trace: cells[i].trace, requests: len(cells[i].a)})
			n += len(cells[i].a)
		}
	}
	if s.exact = n <= mostRequests; s.exact {
		s.count = 1 << n
	}
	shift := 0
	for _, t := range s.traces {
		t.of = make([]uint32, s.count)
		t.width = (t.requests + 7) / 8
		rng := t.random(seed)
		switch {
		case s.exact:
			t.all()
			for k := range t.of {
				t.of[k] = uint32(k >> shift & (1<<t.requests - 1))
			}
		case t.requests <= mostRequests:
			t.all()
			for k := range t.of {
				t.of[k] = rng.Uint32N(1 << t.requests)
			}
		default:
			t.patterns = make([]byte, s.count*t.width)
			for i := range t.patterns {
				t.patterns[i] = byte(rng.Uint32())
			}
			for k := range t.of {
				t.of[k] = uint32(k)
			}
		}
		shift += t.requests
	}
	return s
}

func (t *traceSwaps) random(seed uint64) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte("swaps " + t.trace))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// all lists every pattern of few requests, in the order of their bits.
func (t *traceSwaps) all() {
	for k := range 1 << t.requests {
		for i := range t.width {
			t.patterns = append(t.patterns, byte(k>>(8*i)))
		}
	}
}

// requests returns the number of requests over all traces.
func (s *swaps) requests() (n int) {
	for _, t := range s.traces {
		n += t.requests
	}
	return n
}

// p returns the two-sided p of the summed statistic over the cells: the share of the exchanges
// whose statistic is at least as far from 0 as the observed one. For random exchanges it is (b + 1)
// ÷ (m + 1), which is never 0 (Phipson and Smyth, 2010). It is NaN if the observed statistic is.
// The cells must be of the traces of the swaps, and sorted by trace.
func (s *swaps) p(cells []sides, of statistic) float64 {
	observed := 0.0
	values := make([][]float64, len(s.traces))
	for i, t := range s.traces {
		n := 0
		for n < len(cells) && cells[n].trace == t.trace {
			n++
		}
		var seen float64
		seen, values[i] = t.statistics(cells[:n], of)
		observed += seen
		cells = cells[n:]
	}
	if math.IsNaN(observed) {
		return observed
	}
	limit, extreme := math.Abs(observed)*(1-tieTolerance), 0
	for k := range s.count {
		sum := 0.0
		for i, t := range s.traces {
			sum += values[i][t.of[k]]
		}
		if !(math.Abs(sum) < limit) { // ∞ − ∞ counts too
			extreme++
		}
	}
	if s.exact {
		return float64(extreme) / float64(s.count)
	}
	return float64(extreme+1) / float64(s.count+1)
}

// statistics sums the statistic over the trace's cells, as observed and for each pattern.
func (t *traceSwaps) statistics(cells []sides, of statistic) (observed float64, values []float64) {
	patterns := len(t.patterns)/t.width + 1 // the last one exchanges nothing
	values = make([]float64, patterns)
	ratios := slices.Repeat([]float64{1}, patterns)
	factors := 0
	takeLogs := func() {
		for k, r := range ratios {
			values[k] += math.Log(r)
			ratios[k] = 1
		}
		factors = 0
	}
	leads := make([]float64, patterns)
	for _, c := range cells {
		sum := t.leads(leads, c)
		switch {
		case of == difference:
			for k, lead := range leads {
				values[k] += lead
			}
		case sum > 0: // equal if neither has anything
			for k, lead := range leads {
				ratios[k] *= (sum + lead) / (sum - lead)
			}
			if factors++; factors == mostFactors {
				takeLogs()
			}
		}
	}
	if factors > 0 {
		takeLogs()
	}
	return values[patterns-1], values[:patterns-1]
}

// leads fills in A − B of a cell for each pattern, and the observed one at the end. It returns A +
// B.
func (t *traceSwaps) leads(leads []float64, c sides) (sum float64) {
	observed := 0.0
	for i := range c.a {
		sum += c.a[i] + c.b[i]
		observed += c.a[i] - c.b[i]
	}
	for k := range leads {
		leads[k] = observed
	}
	var changes [256]float64
	for g := range t.width {
		byteChanges(&changes, c, 8*g)
		for k := range leads[:len(leads)-1] {
			leads[k] -= changes[t.patterns[k*t.width+g]]
		}
	}
	return sum
}

// byteChanges sums twice the leads of the requests whose bits are set. The first bit is the given
// request.
func byteChanges(changes *[256]float64, c sides, first int) {
	*changes = [256]float64{}
	for bit := range min(8, len(c.a)-first) {
		twice := 2 * (c.a[first+bit] - c.b[first+bit])
		for low := range 1 << bit {
			changes[1<<bit|low] = changes[low] + twice
		}
	}
}

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
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
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
	slices.SortFunc(groups, func(a, b []bool) int { // the one with the first item that the other lacks
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
