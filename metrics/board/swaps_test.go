package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomSides returns two cells for each trace, whose number of requests is given. The
// amounts of A are those of B times about the ratio.
func randomSides(rng *rand.Rand, ratio float64, requests ...int) (cells []sides) {
	for i, n := range requests {
		for range 2 {
			c := sides{trace: fmt.Sprint(i), a: make([]float64, n), b: make([]float64, n)}
			for r := range n {
				c.b[r] = float64(1 + rng.IntN(50))
				c.a[r] = math.Round(c.b[r] * ratio * math.Exp(0.3*rng.NormFloat64()))
			}
			cells = append(cells, c)
		}
	}
	return cells
}

// literalP tries every exchange by building both sides again.
func literalP(cells []sides, of statistic) float64 {
	starts, n := map[string]int{}, 0 // bit of a trace's first request
	for _, c := range cells {
		if _, known := starts[c.trace]; !known {
			starts[c.trace], n = n, n+len(c.a)
		}
	}
	at := func(pattern int) (sum float64) {
		for _, c := range cells {
			a, b := 0.0, 0.0
			for r := range c.a {
				if pattern>>(starts[c.trace]+r)&1 == 0 {
					a, b = a+c.a[r], b+c.b[r]
				} else {
					a, b = a+c.b[r], b+c.a[r]
				}
			}
			if of == difference {
				sum += a - b
			} else {
				sum += math.Log(a / b)
			}
		}
		return math.Abs(sum)
	}
	observed, extreme := at(0), 0
	for pattern := range 1 << n {
		if at(pattern) >= observed*(1-tieTolerance) {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<n)
}

func TestSwapsTryEveryExchange(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		requests := [][]int{{1}, {7}, {9}, {3, 4}, {2, 1, 5}}[seed%5]
		cells := randomSides(rng, 1+float64(seed%4)/10, requests...)
		for name, of := range map[string]statistic{"ratio": logRatio, "difference": difference} {
			s := newSwaps(0, cells)
			got, want := s.p(cells, of), literalP(cells, of)
			if !s.exact || got != want {
				t.Errorf("seed %d, %s over %v requests: p %v, want %v", seed, name, requests, got, want)
			}
		}
	}
}

// TestRandomSwaps: with too many requests for all exchanges, p is that of random ones. It agrees
// within five standard errors, for traces with few or many requests.
func TestRandomSwaps(t *testing.T) {
	for _, requests := range [][]int{{17}, {5, 6, 7}} {
		cells := randomSides(rand.New(rand.NewPCG(5, 2)), 1.07, requests...)
		s := newSwaps(0, cells)
		got, want := s.p(cells, logRatio), literalP(cells, logRatio)
		if off := 5 * math.Sqrt(want*(1-want)/randomSwaps); s.exact || want < 0.001 || want > 0.5 || math.Abs(got-want) > off {
			t.Errorf("%v requests: p %v, want %v ± %v", requests, got, want, off)
		}
		if again := newSwaps(0, cells).p(cells, logRatio); again != got {
			t.Errorf("%v requests: the same seed gives %v and %v", requests, got, again)
		}
		if other := newSwaps(1, cells).p(cells, logRatio); other == got {
			t.Errorf("%v requests: another seed gives the same %v", requests, got)
		}
		turned := make([]sides, len(cells))
		for i, c := range cells {
			turned[i] = sides{c.trace, c.b, c.a}
		}
		if p := s.p(turned, logRatio); p != got {
			t.Errorf("%v requests: p %v, with A and B turned round %v", requests, got, p)
		}
	}
}

// TestPairsTogether: the tests of all pairs together have the same bits as those of one pair, which
// sum differences. Fractions do too.
func TestPairsTogether(t *testing.T) {
	for _, requests := range [][]int{{17}, {20, 3}, {5, 4}} {
		for _, scale := range []float64{1, 1. / 3} {
			rng := rand.New(rand.NewPCG(uint64(requests[0]), 6))
			var traces []string
			amounts := make([][][]float64, 4)
			for trace, n := range requests {
				for range 2*mostFactors + 1 {
					traces = append(traces, fmt.Sprint(trace))
					for i := range amounts {
						cell := make([]float64, n)
						for r := range cell {
							cell[r] = scale * float64(1+rng.IntN(40+i))
						}
						amounts[i] = append(amounts[i], cell)
					}
				}
			}
			for _, of := range []statistic{logRatio, difference} {
				var pairs [][2]int
				var want []float64
				for i := range amounts {
					for j := i + 1; j < len(amounts); j++ {
						var cells []sides
						for k, trace := range traces {
							cells = append(cells, sides{trace, amounts[i][k], amounts[j][k]})
						}
						pairs, want = append(pairs, [2]int{i, j}), append(want, newSwaps(3, cells).p(cells, of))
					}
				}
				cells := make([]sides, len(traces))
				for k, trace := range traces {
					cells[k] = sides{trace: trace, a: amounts[0][k]}
				}
				if got := newSwaps(3, cells).ps(amounts, pairs, of); !slices.Equal(got, want) {
					t.Errorf("%v requests, statistic %v: p %v, one by one %v", requests, of, got, want)
				}
			}
		}
	}
}

// randomP is the p of random exchanges that adds one logarithm for each cell and exchange. It is the slow
// twin of tests that multiply ratios. All traces have more requests than mostRequests.
func randomP(seed uint64, cells []sides) float64 {
	statistics := make([]float64, 1+randomSwaps) // the first is the observed one
	for _, c := range cells {
		trace := &traceSwaps{seed: seed, trace: c.trace, requests: len(c.a), width: (len(c.a) + 7) / 8}
		rng := rand.New(trace.random())
		for k := range statistics {
			a, b, pattern := 0.0, 0.0, uint32(0)
			for r := range c.a {
				if r%8 == 0 && k > 0 {
					pattern = rng.Uint32()
				}
				if pattern>>(r%8)&1 == 0 {
					a, b = a+c.a[r], b+c.b[r]
				} else {
					a, b = a+c.b[r], b+c.a[r]
				}
			}
			if a+b > 0 {
				statistics[k] += math.Log(a / b)
			}
		}
	}
	if math.IsNaN(statistics[0]) {
		return statistics[0]
	}
	extreme := 0
	for _, x := range statistics {
		if !(math.Abs(x) < math.Abs(statistics[0])*(1-tieTolerance)) {
			extreme++
		}
	}
	return float64(extreme) / float64(len(statistics))
}

// TestRatiosAreMultiplied: tests that multiply ratios have the p of tests that add logarithms. Some
// products exceed mostProduct, and some ratios are 0 or infinite.
func TestRatiosAreMultiplied(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 8))
		number, scale := 1+rng.IntN(mostFactors+2), 1.0
		switch seed % 4 {
		case 1:
			scale = 1. / 3
		case 2: // products above mostProduct that later cells make small
			number, scale = 10*mostFactors, []float64{1e5, 1e14}[seed/4]
		}
		var cells []sides
		for trace := range 1 + rng.IntN(2) {
			n := 17 + rng.IntN(3)
			for k := range number {
				c := sides{fmt.Sprint(trace), make([]float64, n), make([]float64, n)}
				for r := range n {
					if seed%4 == 3 && r > 1 {
						break
					}
					c.a[r], c.b[r] = float64(1+rng.IntN(5)), float64(rng.IntN(6))
				}
				if large := c.a; scale != 1 {
					if k >= number/2 {
						large = c.b
					}
					large[0] = (1 + large[0]) * scale
				}
				cells = append(cells, c)
			}
		}
		got, want := newSwaps(3, cells).p(cells, logRatio), randomP(3, cells)
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("seed %d: p %v, by logarithms %v", seed, got, want)
		}
	}
}

// TestSmallDifferencesTie: if one request alone differs, by one miss in a billion, all exchanges are as
// extreme as the observed labels.
func TestSmallDifferencesTie(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	for number := range 20 {
		var cells []sides
		for range number + 1 {
			c := sides{trace: "a", a: make([]float64, 20)}
			for r := range c.a {
				c.a[r] = float64(50_000_000 + rng.IntN(1000_000))
			}
			c.b = slices.Clone(c.a)
			c.a[3]++
			cells = append(cells, c)
		}
		if p := newSwaps(0, cells).p(cells, logRatio); p != 1 {
			t.Errorf("%d cells: p %v, expected 1", len(cells), p)
		}
	}
}

// TestSmallestP: 40 unanimous requests have the smallest p of random exchanges.
func TestSmallestP(t *testing.T) {
	c := sides{trace: "a", a: make([]float64, 40), b: make([]float64, 40)}
	for i := range c.a {
		c.a[i], c.b[i] = 1, 3
	}
	if p := newSwaps(0, []sides{c}).p([]sides{c}, logRatio); p != math.Ldexp(1, -16) {
		t.Errorf("p %v", p)
	}
}

// TestLevel draws requests in which neither policy is better. At most one test in twenty finds a
// difference, up to three standard errors.
func TestLevel(t *testing.T) {
	const trials = 2000
	rng, wrong := rand.New(rand.NewPCG(3, 3)), 0
	for range trials {
		cells := randomSides(rng, 1, 4, 4)
		for i := 0; i < len(cells); i += 2 { // a request has its labels by chance, the same in both cells
			for r := range cells[i].a {
				if rng.IntN(2) == 0 {
					for _, c := range cells[i : i+2] {
						c.a[r], c.b[r] = c.b[r], c.a[r]
					}
				}
			}
		}
		if newSwaps(0, cells).p(cells, logRatio) < Significant {
			wrong++
		}
	}
	if rate := float64(wrong) / trials; rate > Significant+3*math.Sqrt(Significant*(1-Significant)/trials) || rate < Significant/2 {
		t.Errorf("%.1f %% of the tests are wrong", 100*rate)
	}
}

// TestSwapsWithoutMisses: infinite ratios count. If neither side misses, nothing differs.
func TestSwapsWithoutMisses(t *testing.T) {
	zeros := make([]float64, 4)
	for name, c := range map[string]struct {
		a    []float64
		want float64
	}{"some to none": {[]float64{3, 4, 5, 6}, 2. / 16}, "none to none": {zeros, 1}} {
		cells := []sides{{"a", c.a, zeros}}
		if p := newSwaps(0, cells).p(cells, logRatio); p != c.want {
			t.Errorf("%s: p %v, want %v", name, p, c.want)
		}
	}
}

// TestDecidable: 2 ÷ 2⁶ = 0.03 is significant for one pair, 2 ÷ 2¹³ × 105 = 0.026 for 105 pairs.
func TestDecidable(t *testing.T) {
	for pairs, want := range map[int]int{1: 6, 3: 7, 10: 9, 105: 13} {
		if got := fewestDecidable(pairs); got != want || decidable(want-1, pairs) {
			t.Errorf("%d pairs: %d requests, want %d", pairs, got, want)
		}
	}
}

// A request is exchanged if its bit of a random pattern is set, whatever the bits without request are.
func TestPatternsExchange(t *testing.T) {
	for _, n := range []int{17, 20, 24, 31, 33, 64, 65} {
		trace := &traceSwaps{seed: 7, trace: "a", requests: n, width: (n + 7) / 8}
		amounts := make([]float64, n)
		for r := range amounts {
			amounts[r] = float64(r*r + 1)
		}
		alone := make([]float64, blockSize)
		rng := rand.New(trace.random())
		trace.blocks(blockSize+100, func(first int, p *patterns) {
			p.leads(alone[:p.count], amounts)
			for k := range p.count {
				want := 0.0
				for g := range trace.width {
					pattern := rng.Uint32()
					for r := 8 * g; r < min(8*g+8, n); r++ {
						if pattern>>(r-8*g)&1 == 0 {
							want += amounts[r]
						} else {
							want -= amounts[r]
						}
					}
				}
				if alone[k] != want {
					t.Fatalf("%d requests, exchange %d: lead %v, expected %v", n, first+k, alone[k], want)
				}
			}
		})
	}
}
