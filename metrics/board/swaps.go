package board

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

const (
	// mostRequests is the largest number of requests whose 2ⁿ exchanges are all tried.
	mostRequests = 16
	// randomSwaps is the number of random exchanges that are tried with more requests. With the
	// observed one they make 2¹⁶, so the smallest p is 1.5·10⁻⁵.
	randomSwaps = 1<<mostRequests - 1
	// tieTolerance is the relative difference below which two statistics are equal. It
	// hides the rounding of logarithms, which differs between processors.
	tieTolerance = 1e-9
	// mostPairs is the number of pairs that are tested at once: 0.5 MB each with random exchanges.
	mostPairs = 256
	// blockSize is the number of random patterns that are made at once. Their leads fit into the
	// fastest cache of a processor.
	blockSize = 2048
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

// traceSwaps are the exchanges of one trace's requests. A pattern has a bit for each request, set if
// the request is exchanged.
type traceSwaps struct {
	seed     uint64
	trace    string
	requests int
	width    int // bytes of a pattern
	// of is the pattern of each exchange if the trace has few requests, so that all patterns are
	// tried. It is nil with more requests. Then each exchange has its own random pattern.
	of []uint32
}

// newSwaps makes the exchanges of some cells, which are sorted by trace. It makes all of them for
// up to mostRequests requests, otherwise random ones. The random numbers depend only on the seed
// and the trace's name.
func newSwaps(seed uint64, cells []sides) *swaps {
	s, n := &swaps{count: randomSwaps}, 0
	for i := range cells {
		if i == 0 || cells[i].trace != cells[i-1].trace {
			requests := len(cells[i].a)
			s.traces = append(s.traces, &traceSwaps{seed: seed, trace: cells[i].trace, requests: requests, width: (requests + 7) / 8})
			n += requests
		}
	}
	if s.exact = n <= mostRequests; s.exact {
		s.count = 1 << n
	}
	shift := 0
	for _, t := range s.traces {
		if t.requests > mostRequests {
			continue
		}
		t.of = make([]uint32, s.count)
		rng := rand.New(t.random())
		for k := range t.of {
			if s.exact {
				t.of[k] = uint32(k >> shift & (1<<t.requests - 1))
			} else {
				t.of[k] = rng.Uint32N(1 << t.requests)
			}
		}
		shift += t.requests
	}
	return s
}

func (t *traceSwaps) random() *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte("swaps " + t.trace))
	return rand.NewPCG(t.seed, h.Sum64())
}

// requests returns the number of requests over all traces.
func (s *swaps) requests() (n int) {
	return slice.Sum(s.traces, func(t *traceSwaps) int { return t.requests })
}

// p returns the two-sided p of the summed statistic over the cells: the share of the exchanges
// whose statistic is at least as far from 0 as the observed one. For random exchanges it is (b + 1)
// ÷ (m + 1), which is never 0 (Phipson and Smyth, 2010). It is NaN if the observed statistic is.
// The cells must be of the traces of the swaps, and sorted by trace.
func (s *swaps) p(cells []sides, of statistic) float64 {
	traces, amounts := make([]string, len(cells)), make([][][]float64, 2)
	for i, c := range cells {
		traces[i] = c.trace
		amounts[0], amounts[1] = append(amounts[0], c.a), append(amounts[1], c.b)
	}
	return s.ps(traces, amounts, [][2]int{{0, 1}}, of)[0]
}

// ps returns p of several pairs of policies. traces are those of the cells. amounts are those of a
// policy in a cell, by request.
func (s *swaps) ps(traces []string, amounts [][][]float64, pairs [][2]int, of statistic) (ps []float64) {
	for len(pairs) > 0 {
		n := min(len(pairs), mostPairs)
		ps = append(ps, s.chunk(traces, amounts, pairs[:n], of)...)
		pairs = pairs[n:]
	}
	return ps
}

func (s *swaps) chunk(traces []string, amounts [][][]float64, pairs [][2]int, of statistic) []float64 {
	tests := make([]*pairTest, len(pairs))
	for i, pair := range pairs {
		tests[i] = &pairTest{of: of, pair: pair, sums: make([]float64, s.count)}
	}
	apart := len(pairs) <= len(amounts) || !whole(amounts)
	first := 0
	for _, t := range s.traces {
		end := first
		for end < len(traces) && traces[end] == t.trace {
			end++
		}
		cells := make([][][]float64, len(amounts))
		for i := range amounts {
			cells[i] = amounts[i][first:end]
		}
		for _, test := range tests {
			test.observe(cells)
		}
		if t.of != nil {
			t.few(tests, cells)
		} else {
			t.many(tests, cells, apart)
		}
		first = end
	}
	return slice.Map(tests, func(test *pairTest) float64 { return test.p(s.exact) })
}

// whole reports whether all sums of the amounts are exact in any order, because they are integers
// and small enough.
func whole(amounts [][][]float64) bool {
	for _, cells := range amounts {
		for _, cell := range cells {
			sum := 0.0
			for _, x := range cell {
				if x != math.Trunc(x) {
					return false
				}
				sum += math.Abs(x)
			}
			if !(sum < 1<<49) {
				return false
			}
		}
	}
	return true
}

// pairTest is the test of a pair of policies.
type pairTest struct {
	of       statistic
	pair     [2]int
	observed float64
	sums     []float64 // the statistic, by exchange
}

// observe adds the observed statistic over a trace's cells.
func (test *pairTest) observe(cells [][][]float64) {
	values := newStatistics(test.of, 1)
	for k, a := range cells[test.pair[0]] {
		c := sides{a: a, b: cells[test.pair[1]][k]}
		lead := 0.0
		for i := range c.a {
			lead += c.a[i] - c.b[i]
		}
		values.add([]float64{lead}, c.sum())
	}
	test.observed += values.done()[0]
}

func (test *pairTest) p(exact bool) float64 {
	if math.IsNaN(test.observed) {
		return test.observed
	}
	limit, extreme := math.Abs(test.observed)*(1-tieTolerance), 0
	for _, sum := range test.sums {
		if !(math.Abs(sum) < limit) { // ∞ − ∞ counts too
			extreme++
		}
	}
	if exact {
		return float64(extreme) / float64(len(test.sums))
	}
	return float64(extreme+1) / float64(len(test.sums)+1)
}

// sum returns A + B.
func (c sides) sum() (sum float64) {
	for i := range c.a {
		sum += c.a[i] + c.b[i]
	}
	return sum
}

// differences returns A − B of each request.
func (c sides) differences() []float64 {
	d := make([]float64, len(c.a))
	for i := range d {
		d[i] = c.a[i] - c.b[i]
	}
	return d
}

// few tries every pattern of a trace with few requests.
func (t *traceSwaps) few(tests []*pairTest, cells [][][]float64) {
	patterns := &patterns{count: 1 << t.requests, stride: 1 << t.requests}
	for g := range t.width {
		for k := range patterns.count {
			patterns.bytes = append(patterns.bytes, byte(k>>(8*g)))
		}
	}
	leads := make([]float64, patterns.count)
	for _, test := range tests {
		values := newStatistics(test.of, patterns.count)
		for k, a := range cells[test.pair[0]] {
			c := sides{a: a, b: cells[test.pair[1]][k]}
			patterns.leads(leads, c.differences())
			values.add(leads, c.sum())
		}
		of := values.done()
		for k := range test.sums {
			test.sums[k] += of[t.of[k]]
		}
	}
}

// many makes the random patterns of a trace. If apart, it sums the differences of each pair.
// Otherwise the amounts must be whole. The lead of A over B is then the lead of A alone less that of
// B. So many sums the amounts of each policy once, not once for each pair.
func (t *traceSwaps) many(tests []*pairTest, cells [][][]float64, apart bool) {
	n := len(cells[0]) // of each policy
	sums, differences := make([][]float64, len(tests)), make([]*leads, len(tests))
	for i, test := range tests {
		var of [][]float64
		for k, a := range cells[test.pair[0]] {
			c := sides{a: a, b: cells[test.pair[1]][k]}
			sums[i] = append(sums[i], c.sum())
			if apart {
				of = append(of, c.differences())
			}
		}
		differences[i] = newLeads(of)
	}
	signed := newLeads(nil)
	if !apart {
		signed = newLeads(slices.Concat(cells...))
	}
	by := make([][]float64, max(n, len(signed.series)))
	for i := range by {
		by[i] = make([]float64, blockSize)
	}
	lead, room, values := make([]float64, blockSize), make([]four, blockSize), newStatistics(tests[0].of, blockSize)
	t.blocks(len(tests[0].sums), func(first int, patterns *patterns) {
		signed.fill(by, patterns, room)
		for i, test := range tests {
			values.reset(patterns.count)
			differences[i].fill(by, patterns, room) // none unless apart
			for c, sum := range sums[i] {
				lead := lead[:patterns.count]
				if apart {
					copy(lead, by[c])
				} else {
					a, b := by[test.pair[0]*n+c], by[test.pair[1]*n+c]
					for k := range lead {
						lead[k] = a[k] - b[k]
					}
				}
				values.add(lead, sum)
			}
			for k, value := range values.done() {
				test.sums[first+k] += value
			}
		}
	})
}

// patterns are some patterns of a trace. Byte g of pattern k is bytes[g × stride + k].
type patterns struct {
	count, stride int
	bytes         []byte
}

// row returns byte g of all patterns. After the last byte it returns the last one.
func (p *patterns) row(g int) []byte {
	return p.bytes[min(g, len(p.bytes)/p.stride-1)*p.stride:][:p.count]
}

// blocks makes the random patterns of count exchanges, blockSize at a time, so that memory does not
// grow with the number of exchanges.
func (t *traceSwaps) blocks(count int, use func(first int, p *patterns)) {
	const stride = blockSize + 64 // a power of 2 would leave most of a processor's cache unused
	rng, bytes := t.random(), make([]byte, stride*t.width)
	for first := 0; first < count; first += blockSize {
		p := &patterns{min(blockSize, count-first), stride, bytes}
		for k := range p.count {
			for g := 0; g < len(bytes); g += stride {
				bytes[g+k] = byte(rng.Uint64() >> 32) // the low byte of Rand.Uint32
			}
		}
		use(first, p)
	}
}

// leads fills in the sum of the requests' amounts for each pattern. The amounts of exchanged
// requests are negative.
func (p *patterns) leads(leads, amounts []float64) {
	total := slice.Sum(amounts, func(x float64) float64 { return x })
	for k := range leads {
		leads[k] = total
	}
	var one, two [256]float64
	for g := 0; len(amounts) > 0; g += 2 {
		first := p.row(g)[:len(leads)]
		rest := byteChanges(&one, amounts)
		if len(rest) == 0 {
			for k := range leads {
				leads[k] -= one[first[k]]
			}
			return
		}
		second := p.row(g + 1)[:len(leads)]
		amounts = byteChanges(&two, rest)
		for k := range leads {
			leads[k] = leads[k] - one[first[k]] - two[second[k]]
		}
	}
}

// byteChanges sums twice the amounts of the requests whose bits are set, for the first eight
// requests. It returns the amounts of the others.
func byteChanges(changes *[256]float64, amounts []float64) (rest []float64) {
	for bit := range 8 {
		x := 0.0 // of a bit without request
		if bit < len(amounts) {
			x = amounts[bit]
		}
		for low := range 1 << bit {
			changes[1<<bit|low] = changes[low] + 2*x
		}
	}
	return amounts[min(8, len(amounts)):]
}

// statistics sums a statistic over cells, for several patterns.
type statistics struct {
	of             statistic
	values, ratios []float64
	factors        int // of a ratio
}

func newStatistics(of statistic, patterns int) *statistics {
	s := &statistics{of: of, values: make([]float64, patterns)}
	if of == logRatio {
		s.ratios = slices.Repeat([]float64{1}, patterns)
	}
	return s
}

// reset begins again with some of the patterns that the statistics were made for.
func (s *statistics) reset(patterns int) {
	s.values, s.factors = s.values[:patterns], 0
	clear(s.values)
	if s.of == logRatio {
		s.ratios = s.ratios[:patterns]
		for k := range s.ratios {
			s.ratios[k] = 1
		}
	}
}

// add adds a cell, of which the leads A − B by pattern and A + B are given.
func (s *statistics) add(leads []float64, sum float64) {
	switch {
	case s.of == difference:
		for k, lead := range leads {
			s.values[k] += lead
		}
	case sum > 0: // equal if neither has anything
		for k, lead := range leads {
			s.ratios[k] *= (sum + lead) / (sum - lead)
		}
		if s.factors++; s.factors == mostFactors {
			s.takeLogs()
		}
	}
}

func (s *statistics) takeLogs() {
	for k, r := range s.ratios {
		s.values[k] += math.Log(r)
		s.ratios[k] = 1
	}
	s.factors = 0
}

// done returns the sums.
func (s *statistics) done() []float64 {
	if s.factors > 0 {
		s.takeLogs()
	}
	return s.values
}
