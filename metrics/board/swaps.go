package board

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// Significant is the p below which two policies count as different.
	Significant = 0.05
	// mostRequests is the largest number of requests whose 2ⁿ exchanges are all tried.
	mostRequests = 16
	// randomSwaps is how many random exchanges are tried with more requests. With the
	// observed one they make 2¹⁶, so the smallest p is 1.5·10⁻⁵.
	randomSwaps = 1<<mostRequests - 1
	// tieTolerance is the relative difference below which two statistics are equal. It
	// hides the rounding of logarithms, which differs between processors.
	tieTolerance = 1e-9
)

// sides holds the amounts that two policies have in one cell, by request. The amounts of
// a policy sum to its figure in the cell: its misses, its lost blocks or its time.
type sides struct {
	trace string
	a, b  []float64
}

// statistic is a comparison of A and B that is 0 if they are equal, odd in A − B, and adds
// up over cells.
type statistic int

const (
	// logRatio is the logarithm of A ÷ B. Its mean over cells is the logarithm of the
	// geometric mean of the ratios.
	logRatio statistic = iota
	// difference is A − B.
	difference
)

// mostFactors is the number of ratios that are multiplied before their logarithm is taken:
// few enough that no product overflows.
const mostFactors = 16

// swaps are the exchanges of a paired permutation test. If two policies do not differ,
// their labels can be exchanged in any request: each of the 2ⁿ exchanges is as likely as
// the labels that were observed (Fisher, The Design of Experiments, 1935, section 21;
// Smucker, Allan and Carterette, CIKM 2007, section 3.3, for rankings). All cells of a
// trace exchange a request together, as they replay the same request.
type swaps struct {
	traces []*traceSwaps
	count  int
	exact  bool // all 2ⁿ
}

// traceSwaps are the exchanges of one trace's requests.
type traceSwaps struct {
	trace    string
	requests int
	// patterns has width bytes for each pattern. Bit i says that request i is exchanged.
	patterns []byte
	width    int
	// of is the pattern of each of swaps.count exchanges.
	of []uint32
}

// newSwaps makes the exchanges of some cells, which are sorted by trace: all of them for
// up to mostRequests requests, else random ones. The stream of random numbers depends on
// the seed and the trace's name alone.
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

// requests is how many there are, over all traces.
func (s *swaps) requests() (n int) {
	for _, t := range s.traces {
		n += t.requests
	}
	return n
}

// p is the two-sided p of the summed statistic over the cells: the share of the exchanges
// whose statistic is at least as far from 0 as the observed one. Of random exchanges it is
// (b + 1) ÷ (m + 1), which is never 0 (Phipson and Smyth, 2010). It is NaN if the
// observed statistic is. The cells are of the traces of the swaps, and sorted by trace.
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
		if !(math.Abs(sum) < limit) { // ∞ − ∞ counts, too
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
		case sum > 0: // equal where neither has anything
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

// leads fills in A − B of a cell for each pattern, and as observed at the end. It returns
// A + B.
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

// byteChanges sums twice the leads of the requests whose bits are set, the first bit
// standing for the given request.
func byteChanges(changes *[256]float64, c sides, first int) {
	*changes = [256]float64{}
	for bit := range min(8, len(c.a)-first) {
		twice := 2 * (c.a[first+bit] - c.b[first+bit])
		for low := range 1 << bit {
			changes[1<<bit|low] = changes[low] + twice
		}
	}
}

// decidable reports whether n requests can distinguish a pair among pairs that are tested
// together. The smallest p of n requests is 2 ÷ 2ⁿ. Holm's correction multiplies it by pairs.
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
