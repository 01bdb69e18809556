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
	// mostPairs is the number of pairs that are tested at once. With random exchanges each takes 0.3 MB, and
	// 8 to 20 bytes more for each exchange that its bounds leave open.
	mostPairs = 256
	// blockSize is the number of patterns that are made at once. Each block makes the 256 changes of a
	// byte again, so it has many more patterns.
	blockSize = 1 << 14
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
	seed       uint64
	trace      string
	requests   int
	width      int // bytes of a pattern
	first, end int // its cells
	// exact means that exchange k has the pattern k >> shift. Otherwise patterns are random.
	exact bool
	shift int
}

// newSwaps makes the exchanges of some cells, which are sorted by trace. It makes all of them for
// up to mostRequests requests, otherwise random ones. The random numbers depend only on the seed
// and the trace's name.
func newSwaps(seed uint64, cells []sides) *swaps {
	s, n := &swaps{count: randomSwaps}, 0
	for i, c := range cells {
		if i == 0 || c.trace != cells[i-1].trace {
			requests := len(c.a)
			s.traces = append(s.traces, &traceSwaps{seed: seed, trace: c.trace, requests: requests, width: (requests + 7) / 8, first: i, shift: n})
			n += requests
		}
		s.traces[len(s.traces)-1].end = i + 1
	}
	if s.exact = n <= mostRequests; s.exact {
		s.count = 1 << n
		for _, t := range s.traces {
			t.exact = true
		}
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
// The cells must be those of the swaps.
func (s *swaps) p(cells []sides, of statistic) float64 {
	amounts := make([][][]float64, 2)
	for _, c := range cells {
		amounts[0], amounts[1] = append(amounts[0], c.a), append(amounts[1], c.b)
	}
	return s.ps(amounts, [][2]int{{0, 1}}, of)[0]
}

// ps returns p of several pairs of policies. amounts are those of a policy in a cell, by request.
//
// Most exchanges need no statistic: bounds tell on which side of the observed one it lies. They cost
// less if all pairs share the sums of policies, so sums of pairs bound only the others.
func (s *swaps) ps(amounts [][][]float64, pairs [][2]int, of statistic) []float64 {
	tests := slice.Map(pairs, func(pair [2]int) *pairTest { return newPairTest(of, pair, amounts) })
	open := slice.Filter(tests, func(test *pairTest) bool { return !math.IsNaN(test.observed) })
	if len(pairs) > len(amounts) {
		open = s.boundByPolicy(amounts, open, of)
	}
	for some := range slices.Chunk(open, mostPairs) {
		s.boundByPair(some)
		s.try(some)
	}
	return slice.Map(tests, func(test *pairTest) float64 { return test.p(s) })
}

// pairTest is the test of a pair of policies.
type pairTest struct {
	of       statistic
	pair     [2]int
	a, b     [][]float64 // amounts by cell and request
	observed float64
	limit    float64 // an exchange is extreme if its statistic is at least as far from 0
	extreme  int     // exchanges
	open     []int32 // exchanges whose statistics are to be computed, sorted
	// of each open exchange: the sum of differences, or the product of ratios. The logarithm of the product
	// is the statistic, but the limit needs it only if logs is not nil. Then logs is added to it.
	totals, logs []float64
}

// newPairTest returns the test of a pair with its observed statistic.
func newPairTest(of statistic, pair [2]int, amounts [][][]float64) *pairTest {
	test := &pairTest{of: of, pair: pair, a: amounts[pair[0]], b: amounts[pair[1]]}
	for k := range test.a {
		c, lead := test.cell(k), 0.0
		for i := range c.a {
			lead += c.a[i] - c.b[i]
		}
		switch sum := c.sum(); {
		case of == difference:
			test.observed += lead
		case sum > 0: // equal if neither has anything
			test.observed += math.Log((sum + lead) / (sum - lead))
		}
	}
	test.limit = math.Abs(test.observed)*(1-tieTolerance) - tieRounding
	return test
}

// cell returns the amounts of the pair in cell k.
func (test *pairTest) cell(k int) sides { return sides{a: test.a[k], b: test.b[k]} }

func (test *pairTest) p(s *swaps) float64 {
	switch {
	case math.IsNaN(test.observed):
		return test.observed
	case s.exact:
		return float64(test.extreme) / float64(s.count)
	}
	return float64(test.extreme+1) / float64(s.count+1)
}

// take adds differences to the sums of the open exchanges from first on, or multiplies their products by
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

// countOpen counts the extreme ones of the open exchanges.
func (test *pairTest) countOpen() {
	low, high := -test.limit, test.limit
	if products := test.of == logRatio && test.logs == nil; products {
		low, high = math.Exp(-test.limit), math.Exp(test.limit)
	}
	for k, total := range test.totals {
		if test.logs != nil {
			total = test.logs[k] + math.Log(total)
		}
		if !(low < total && total < high) { // ∞ − ∞ counts too
			test.extreme++
		}
	}
	test.open, test.totals, test.logs = nil, nil, nil
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

// try computes the statistics of the open exchanges.
func (s *swaps) try(tests []*pairTest) {
	if tests = slice.Filter(tests, func(test *pairTest) bool { return test.open != nil }); tests == nil {
		return
	}
	for _, test := range tests {
		test.totals = make([]float64, len(test.open))
		if test.of == logRatio {
			for k := range test.totals {
				test.totals[k] = 1
			}
		}
	}
	workers := make([]*pairWorker, min(len(tests), runtime.GOMAXPROCS(0)))
	for i := range workers {
		workers[i] = &pairWorker{leads: make([]float64, blockSize), sums: newStatistics(blockSize)}
	}
	for _, t := range s.traces {
		t.blocks(s.count, func(first int, p *patterns) {
			inParallel(len(tests), func(i, worker int) { workers[worker].try(tests[i], t, first, p) })
		})
	}
	inParallel(len(tests), func(i, _ int) { tests[i].countOpen() })
}

// pairWorker has the room of one processor for the tests of pairs.
type pairWorker struct {
	open  patterns
	leads []float64
	sums  *statistics
}

// try adds the cells of a trace to the open exchanges among those from first on, which have the patterns.
func (w *pairWorker) try(test *pairTest, t *traceSwaps, first int, p *patterns) {
	begin, _ := slices.BinarySearch(test.open, int32(first))
	end, _ := slices.BinarySearch(test.open, int32(first+p.count))
	if begin == end {
		return
	}
	w.open.pick(p, test.open[begin:end], first)
	leads := w.leads[:end-begin]
	for k := t.first; k < t.end; k++ {
		c := test.cell(k)
		w.open.leads(leads, c.differences())
		w.sums.add(test.of, leads, c.sum())
		if w.sums.factors == mostFactors || k+1 == t.end {
			w.sums.take(test, begin)
		}
	}
}

// inParallel calls do for each i below n, on all processors. The workers are numbered.
func inParallel(n int, do func(i, worker int)) {
	var group sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < n; i += workers {
				do(i, worker)
			}
		})
	}
	group.Wait()
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

// pick makes p the patterns of some exchanges. from has those of all exchanges from first on.
func (p *patterns) pick(from *patterns, exchanges []int32, first int) {
	p.count, p.stride = len(exchanges), from.stride
	p.bytes = slices.Grow(p.bytes[:0], len(from.bytes))[:len(from.bytes)]
	for g := 0; g < len(p.bytes); g += p.stride {
		to, from := p.bytes[g:][:p.count], from.bytes[g:]
		for k, exchange := range exchanges {
			to[k] = from[int(exchange)-first]
		}
	}
}

// blocks makes the patterns of count exchanges, blockSize at a time, so that memory does not grow
// with the number of exchanges.
func (t *traceSwaps) blocks(count int, use func(first int, p *patterns)) {
	const stride = blockSize + 64 // a power of 2 would leave most of a processor's cache unused
	random, bytes := t.random(), make([]byte, stride*t.width)
	rng := rand.New(random)
	for first := 0; first < count; first += blockSize {
		p := &patterns{min(blockSize, count-first), stride, bytes}
		for k := range p.count {
			pattern := uint32(first+k) >> t.shift
			switch {
			case t.exact:
			case t.requests <= mostRequests:
				pattern = rng.Uint32N(1 << t.requests)
			default:
				for g := 0; g < len(bytes); g += stride {
					bytes[g+k] = byte(random.Uint64() >> 32) // the low byte of Rand.Uint32
				}
				continue
			}
			for g := range t.width {
				bytes[g*stride+k] = byte(pattern >> (8 * g))
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

// add adds a cell. leads are A − B of the patterns. sum is A + B.
func (s *statistics) add(of statistic, leads []float64, sum float64) {
	s.patterns = len(leads)
	above, below := s.above[:len(leads)], s.below[:len(leads)]
	switch {
	case of == difference && s.factors == 0:
		copy(above, leads)
	case of == difference:
		for k, lead := range leads {
			above[k] += lead
		}
	case !(sum > 0): // equal if neither has anything
		return
	case s.factors == 0:
		for k, lead := range leads {
			above[k], below[k] = sum+lead, sum-lead
		}
	default:
		for k, lead := range leads {
			above[k] *= sum + lead
			below[k] *= sum - lead
		}
	}
	s.factors++
}

// take adds the cells to the test's open exchanges from the given one on, and begins again.
func (s *statistics) take(test *pairTest, begin int) {
	if s.factors == 0 {
		return
	}
	s.factors = 0
	if test.of == logRatio {
		for k := range s.patterns {
			s.above[k] /= s.below[k]
		}
	}
	test.take(begin, s.above[:s.patterns])
}
