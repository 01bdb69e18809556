package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// allPairs returns all pairs of n policies.
func allPairs(n int) (pairs [][2]int) {
	for i := range n {
		for j := range i {
			pairs = append(pairs, [2]int{j, i})
		}
	}
	return pairs
}

// everyExchange is ps without bounds: it computes the statistic of every exchange.
func (s *swaps) everyExchange(amounts [][][]float64, pairs [][2]int, of statistic) []float64 {
	tests := slice.Map(pairs, func(pair [2]int) *pairTest { return newPairTest(of, pair, amounts) })
	for _, test := range tests {
		for k := range s.count {
			test.open = append(test.open, int32(k))
		}
	}
	s.try(tests)
	return slice.Map(tests, func(test *pairTest) float64 { return test.p(s) })
}

// similarAmounts makes amounts of some policies by cell and request. The kind says which cases they
// have: zeros, policies that are almost or exactly equal, fractions, and amounts without bounds.
func similarAmounts(rng *rand.Rand, kind, policies int) (amounts [][][]float64, cells []sides) {
	traces, capacities := 1+rng.IntN(3), 1+rng.IntN(mostFactors+3)
	amounts, cells = likeMisses(rng, policies, traces, capacities, 1+rng.IntN(40))
	for i := range amounts {
		for c, cell := range amounts[i] {
			for r := range cell {
				switch x := &cell[r]; kind {
				case 1: // all but one request of ten are equal
					if i > 0 && rng.IntN(10) > 0 {
						*x = amounts[0][c][r]
					}
				case 2: // small counts
					*x = math.Floor(*x / 9000)
				case 3: // other requests, fractions
					*x *= rng.Float64()
				case 4: // large and equal, but for the last request of the last policy
					*x = 1e12
					if i == policies-1 && r == len(cell)-1 {
						*x++
					}
				case 5: // one policy has nothing in some cells, or everything
					if i == 1 && c%2 == 0 {
						*x = 0
					}
				case 6: // requests of one policy alone
					if (r+i)%2 == 0 {
						*x = 0
					}
				case 7: // an unknown time
					if i == 0 && c == 0 && r == 0 {
						*x = []float64{math.NaN(), math.Inf(1)}[rng.IntN(2)]
					}
				case 8: // one policy is far from the others
					if i == 0 {
						*x *= 1e4
					}
				case 9: // equal policies
					*x = amounts[0][c][r]
				case 10: // times in seconds
					*x *= 1e-9 / 3
				}
			}
		}
	}
	return amounts, cells
}

func checkBounds(t *testing.T, seed uint64, kind, policies int) {
	rng := rand.New(rand.NewPCG(seed, uint64(kind)))
	amounts, cells := similarAmounts(rng, kind, policies)
	s := newSwaps(seed, cells)
	s.count = min(s.count, 3000)
	pairs := allPairs(policies)
	for _, of := range []statistic{logRatio, difference} {
		got, want := s.ps(amounts, pairs, of), s.everyExchange(amounts, pairs, of)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d, kind %d, %d policies, statistic %d: p %v, of every exchange %v", seed, kind, policies, of, got, want)
		}
	}
}

// The tests of pairs have the p that computing the statistic of every exchange gives.
func TestBoundsKeepP(t *testing.T) {
	for seed := range uint64(10) {
		for kind := range 11 {
			checkBounds(t, seed, kind, 2+int(seed%7))
		}
	}
}

func FuzzBounds(f *testing.F) {
	for kind := range byte(11) {
		f.Add(uint64(1), kind, byte(5))
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind, policies byte) {
		checkBounds(t, seed, int(kind%11), 2+int(policies%9))
	})
}

// In every exchange, the statistic of a cell is as near to slope × lead as the bound says. The bound is
// not much larger than the error.
func TestCellBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := sides{a: make([]float64, 1+rng.IntN(8)), b: make([]float64, 8)}
		c.b = c.b[:len(c.a)]
		spread := math.Exp(-3 * rng.Float64())
		for r := range c.a {
			c.a[r] = 100 * rng.Float64()
			c.b[r] = c.a[r]*(1-spread) + 100*spread*rng.Float64()
		}
		b := c.bound(logRatio)
		for _, slope := range []float64{b.slope(), b.slope() * (0.5 + rng.Float64()), 2 / b.sum} {
			largest := 0.0
			for pattern := range 1 << len(c.a) {
				lead := 0.0
				for r, d := range c.differences() {
					lead += d * float64(1-2*(pattern>>r&1))
				}
				largest = max(largest, math.Abs(math.Log((b.sum+lead)/(b.sum-lead))-slope*lead))
			}
			if off := b.off(slope); largest > off {
				t.Errorf("%+v, slope %v: error %v, bound %v", c, slope, largest, off)
			}
		}
		if end := b.most() - b.slope()*b.lead; b.off(b.slope()) > 1.5*math.Abs(end)+1e-10 && b.share() < 0.5 {
			t.Errorf("%+v: bound %v, error of the largest lead %v", c, b.off(b.slope()), end)
		}
	}
}

// Bounds leave few of the exchanges open. Otherwise a board of many policies takes much longer.
func TestBoundsDecideMost(t *testing.T) {
	amounts, cells := likeMisses(rand.New(rand.NewPCG(1, 2)), 27, 4, 5, 60)
	s := newSwaps(0, cells)
	tests := slice.Map(allPairs(27), func(pair [2]int) *pairTest { return newPairTest(logRatio, pair, amounts) })
	left := s.boundByPolicy(amounts, tests, logRatio)
	s.boundByPair(left)
	open := slice.Sum(left, func(test *pairTest) int { return len(test.open) })
	if len(left) > len(tests)/10 || open > s.count/20 {
		t.Errorf("bounds by policy leave %d of %d pairs, and bounds by pair %d exchanges", len(left), len(tests), open)
	}
	if !slices.IsSortedFunc(left[0].open, func(a, b int32) int { return int(a - b) }) {
		t.Error("open exchanges are not sorted")
	}
}
