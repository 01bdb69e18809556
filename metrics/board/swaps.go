package board

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/internal/slice"
)

const (
	// mostRequests is the largest number of requests whose 2ⁿ exchanges are all tried.
	mostRequests = 16
	// randomSwaps is the number of random exchanges that are tried with more requests. With the
	// observed one they make 2¹⁶, so the smallest p is 1.5·10⁻⁵.
	randomSwaps = 1<<mostRequests - 1
	// tieTolerance is the relative difference below which two statistics are equal. tieRounding is the
	// absolute one. They hide the rounding of products and logarithms, which differs between processors.
	tieTolerance, tieRounding = 1e-9, 1e-12
	// mostPairs is the number of pairs that are tested at once. With random exchanges each takes 0.5 MB, or
	// 1 MB if a product needs a logarithm.
	mostPairs = 256
	// blockSize is the number of random patterns that are made at once. Each block makes the 256
	// changes of a byte again, so it has many more patterns.
	blockSize = 4096
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

const (
	// mostFactors is the number of amounts that are multiplied before the division. It is small enough
	// that no product overflows.
	mostFactors = 8
	// mostProduct and leastProduct bound the product of ratios that a test keeps without a logarithm.
	mostProduct  = 1 << 200
	leastProduct = 1. / mostProduct
)

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
	for some := range slices.Chunk(pairs, mostPairs) {
		ps = append(ps, s.chunk(traces, amounts, some, of)...)
	}
	return ps
}

func (s *swaps) chunk(traces []string, amounts [][][]float64, pairs [][2]int, of statistic) []float64 {
	tests := make([]*pairTest, len(pairs))
	for i, pair := range pairs {
		tests[i] = newPairTest(of, pair, s.count)
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
	// of each exchange: the sum of differences, or the product of ratios. The logarithm of the product
	// is the statistic, but p needs it only if logs is not nil. Then logs is added to it.
	totals, logs []float64
}

func newPairTest(of statistic, pair [2]int, exchanges int) *pairTest {
	test := &pairTest{of: of, pair: pair, totals: make([]float64, exchanges)}
	if of == logRatio {
		for k := range test.totals {
			test.totals[k] = 1
		}
	}
	return test
}

// observe adds the observed statistic over a trace's cells.
func (test *pairTest) observe(cells [][][]float64) {
	for k, a := range cells[test.pair[0]] {
		c := sides{a: a, b: cells[test.pair[1]][k]}
		lead := 0.0
		for i := range c.a {
			lead += c.a[i] - c.b[i]
		}
		switch sum := c.sum(); {
		case test.of == difference:
			test.observed += lead
		case sum > 0: // equal if neither has anything
			test.observed += math.Log((sum + lead) / (sum - lead))
		}
	}
}

// take adds differences to the sums of the exchanges from first on, or multiplies their products by
// ratios. A large or small product moves into the logarithm.
func (test *pairTest) take(first int, by []float64) {
	totals := test.totals[first:][:len(by)]
	if test.of == difference {
		for k, x := range by {
			totals[k] += x
		}
		return
	}
	for k, ratio := range by {
		if product := totals[k] * ratio; product > leastProduct && product < mostProduct {
			totals[k] = product
			continue
		}
		if test.logs == nil {
			test.logs = make([]float64, len(test.totals))
		}
		test.logs[first+k] += math.Log(totals[k]) + math.Log(ratio)
		totals[k] = 1
	}
}

func (test *pairTest) p(exact bool) float64 {
	if math.IsNaN(test.observed) {
		return test.observed
	}
	extreme := test.extreme(math.Abs(test.observed)*(1-tieTolerance) - tieRounding)
	if exact {
		return float64(extreme) / float64(len(test.totals))
	}
	return float64(extreme+1) / float64(len(test.totals)+1)
}

// extreme counts the exchanges whose statistic is at least as far from 0 as a limit.
func (test *pairTest) extreme(limit float64) (extreme int) {
	low, high := -limit, limit
	if products := test.of == logRatio && test.logs == nil; products {
		low, high = math.Exp(-limit), math.Exp(limit)
	}
	for k, total := range test.totals {
		if test.logs != nil {
			total = test.logs[k] + math.Log(total)
		}
		if !(low < total && total < high) { // ∞ − ∞ counts too
			extreme++
		}
	}
	return extreme
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
	leads, none, s := make([]float64, patterns.count), make([]float64, patterns.count), newStatistics(patterns.count)
	for _, test := range tests {
		for k, a := range cells[test.pair[0]] {
			c := sides{a: a, b: cells[test.pair[1]][k]}
			patterns.leads(leads, c.differences())
			s.add(test.of, leads, none, c.sum())
			if s.factors == mostFactors || k+1 == len(cells[test.pair[0]]) {
				s.take(test, 0, t.of)
			}
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
	bySigned := vectors(len(signed.series))
	workers := make([]*pairWorker, min(len(tests), runtime.GOMAXPROCS(0)))
	for i := range workers {
		workers[i] = &pairWorker{by: vectors(n), room: make([]four, blockSize), sums: newStatistics(blockSize)}
	}
	none := make([]float64, blockSize)
	t.blocks(len(tests[0].totals), func(first int, patterns *patterns) {
		signed.fill(bySigned, patterns, workers[0].room)
		var group sync.WaitGroup
		for begin, w := range workers {
			group.Go(func() {
				for i := begin; i < len(tests); i += len(workers) {
					test := tests[i]
					differences[i].fill(w.by, patterns, w.room) // none unless apart
					for c, sum := range sums[i] {
						a, b := w.by[c], none
						if !apart {
							a, b = bySigned[test.pair[0]*n+c], bySigned[test.pair[1]*n+c]
						}
						w.sums.add(test.of, a[:patterns.count], b, sum)
						if w.sums.factors == mostFactors || c+1 == n {
							w.sums.take(test, first, nil)
						}
					}
				}
			})
		}
		group.Wait()
	})
}

// pairWorker has the room of one processor for the tests of pairs.
type pairWorker struct {
	by   [][]float64 // leads of a pair by cell and pattern
	room []four
	sums *statistics
}

// vectors makes vectors of one number for each pattern of a block.
func vectors(count int) [][]float64 {
	all := make([][]float64, count)
	for i := range all {
		all[i] = make([]float64, blockSize)
	}
	return all
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
	above, below []float64 // products of A + B + lead, and of A + B − lead. above holds sums of differences
	factors      int       // of the products, or terms of the sums
	patterns     int
}

func newStatistics(patterns int) *statistics {
	return &statistics{above: make([]float64, patterns), below: make([]float64, patterns)}
}

// add adds a cell. The lead A − B of a pattern is a − b. sum is A + B.
func (s *statistics) add(of statistic, a, b []float64, sum float64) {
	s.patterns = len(a)
	b, above, below := b[:len(a)], s.above[:len(a)], s.below[:len(a)]
	switch {
	case of == difference && s.factors == 0:
		for k := range a {
			above[k] = a[k] - b[k]
		}
	case of == difference:
		for k := range a {
			above[k] += a[k] - b[k]
		}
	case !(sum > 0): // equal if neither has anything
		return
	case s.factors == 0:
		for k := range a {
			lead := a[k] - b[k]
			above[k], below[k] = sum+lead, sum-lead
		}
	default:
		for k := range a {
			lead := a[k] - b[k]
			above[k] *= sum + lead
			below[k] *= sum - lead
		}
	}
	s.factors++
}

// take adds the cells to the test's exchanges from first on, and begins again. Exchange k has
// pattern of[k], or pattern k if of is nil.
func (s *statistics) take(test *pairTest, first int, of []uint32) {
	if s.factors == 0 {
		return
	}
	s.factors = 0
	if test.of == logRatio {
		for k := range s.patterns {
			s.above[k] /= s.below[k]
		}
	}
	if of == nil {
		test.take(first, s.above[:s.patterns])
		return
	}
	for k, pattern := range of {
		test.take(first+k, s.above[pattern:pattern+1])
	}
}
