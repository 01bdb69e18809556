package allocate

import "github.com/kvreplay/kvreplay/internal/slice"

// exact2D solves the multiple-choice knapsack of KVDrive's section 5.2 by dynamic programming over memory (Dudzinski and
// Walukiewicz 1987). best(i, m) is the maximum over the sizes of curve i of benefit + best(i-1, m -
// cost).
//
// It counts memory in multiples of the greatest common divisor of all costs above the floors. This
// loses nothing: on the grid of `--capacity sweep` the divisor is K÷16. If that gives more than
// exactStates multiples, it uses a coarser unit and rounds costs up. The result still fits and is
// the best at that granularity (Result.Granularity). If 2d-greedy's choice moves less, that is the
// result. The time is curves × sizes × multiples. The memory is 2 B × curves × multiples.
var exact2D = Method{
	Name:    "2d-exact",
	Summary: "the best of all choices, by dynamic programming",
	Usage:   "2d-exact",
	solve:   solveExact,
}

// exactStates is the largest number of multiples of memory in 2d-exact.
const exactStates = 1 << 16

func solveExact(p *Problem, memory int64) *Result { return solveExactIn(p, memory, exactStates) }

// solveExactIn distinguishes at most states multiples of memory.
func solveExactIn(p *Problem, memory, states int64) *Result {
	g := newClimb(p, memory)
	unit, fine := g.granularity(states)
	t := newKnapsack(g, unit)
	for _, f := range g.frontiers {
		t.add(f)
	}
	r := &Result{Sizes: t.sizes(), Granularity: unit}
	moved := g.moved - t.best[len(t.best)-1]
	if fine {
		r.AtLeast = moved
		return r
	}
	quick := solveGreedy(p, memory)
	if t, err := p.Totals(quick.Sizes); err == nil && t.Moved < moved {
		r.Sizes = quick.Sizes
	}
	r.AtLeast = quick.AtLeast
	return r
}

// granularity returns the unit of memory. fine reports whether it is as fine as the costs.
func (g *climb) granularity(states int64) (unit int64, fine bool) {
	most := int64(0) // memory that can be spent
	for _, f := range g.frontiers {
		for _, p := range f {
			unit = gcd(unit, p.Cost-f[0].Cost)
		}
		most += f[len(f)-1].Cost - f[0].Cost
	}
	if unit == 0 { // nothing to choose
		return 1, true
	}
	most = min(most, g.left)
	if most/unit <= states {
		return unit, true
	}
	return (most + states - 1) / states, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// knapsack is the dynamic programme. best[m] is the largest saving of the curves so far with m
// units above the floors. picks[i][m] is the point of curve i in that choice.
type knapsack struct {
	unit       int64
	frontiers  [][]Point
	best, next []int64
	picks      [][]uint16
}

func newKnapsack(g *climb, unit int64) *knapsack {
	most := slice.Sum(g.frontiers, func(f []Point) int64 { return (f[len(f)-1].Cost - f[0].Cost + unit - 1) / unit })
	n := 1 + min(g.left/unit, most)
	return &knapsack{unit: unit, frontiers: g.frontiers, best: make([]int64, n), next: make([]int64, n)}
}

// weight returns the cost of a point above its floor, in units, rounded up.
func (t *knapsack) weight(f []Point, j int) int {
	return int((f[j].Cost - f[0].Cost + t.unit - 1) / t.unit)
}

// add adds one curve. Among equals it keeps the cheaper point.
func (t *knapsack) add(f []Point) {
	pick := make([]uint16, len(t.best))
	copy(t.next, t.best)
	for j := 1; j < len(f); j++ {
		w, gain := t.weight(f, j), f[0].Moved-f[j].Moved
		for m := w; m < len(t.next); m++ {
			if v := t.best[m-w] + gain; v > t.next[m] {
				t.next[m], pick[m] = v, uint16(j)
			}
		}
	}
	t.best, t.next, t.picks = t.next, t.best, append(t.picks, pick)
}

// sizes follows the picks back from the least memory with the largest saving.
func (t *knapsack) sizes() []int {
	m := len(t.best) - 1
	for m > 0 && t.best[m-1] == t.best[m] {
		m--
	}
	sizes := make([]int, len(t.picks))
	for i := len(t.picks) - 1; i >= 0; i-- {
		f := t.frontiers[i]
		j := int(t.picks[i][m])
		sizes[i] = f[j].Size
		m -= t.weight(f, j)
	}
	return sizes
}
