package allocate

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// greedy2D starts from the smallest sizes. It enlarges the size that saves most per entry of
// memory, until the memory is spent (KVDrive, section 5.2).
//
// The paper enlarges "the window with the highest benefit-to-cost ratio" and does not state the
// amount. Single sizes get stuck if a curve is not concave: a step that saves little precedes one
// that saves much. So a curve is climbed along its upper concave envelope, from each size to the
// larger size with the best ratio. On concave curves that is the next size. After a step does not
// fit, steps may go from any curve to any size that fits, best ratio first, until none fits.
//
// Up to the first step that does not fit, this is the optimum of the linear relaxation (Sinha and
// Zoltners 1979). So the best choice saves less than that one step more than this method.
// Result.AtLeast states the bound. The time is that of sorting all sizes.
var greedy2D = Method{
	Name:    "2d-greedy",
	Summary: "the largest saving per entry of memory first, from the smallest sizes up",
	Usage:   "2d-greedy",
	solve:   solveGreedy,
}

// step enlarges a curve from one point of its envelope to the next.
type step struct {
	curve, to  int // point of the frontier
	cost, gain int64
}

// byRatio orders by falling gain ÷ cost, exactly.
func byRatio(a, b step) int {
	ah, al := bits.Mul64(uint64(a.gain), uint64(b.cost))
	bh, bl := bits.Mul64(uint64(b.gain), uint64(a.cost))
	return -cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}

func solveGreedy(p *Problem, memory int64) *Result {
	g := newClimb(p, memory)
	steps := g.steps()
	slices.SortStableFunc(steps, byRatio)
	i := 0
	for i < len(steps) && steps[i].cost <= g.left {
		g.take(steps[i])
		i++
	}
	atLeast := g.moved
	if i < len(steps) {
		atLeast -= mulAddDiv(steps[i].gain, g.left, 0, steps[i].cost)
	}
	g.fill()
	return &Result{Sizes: g.sizes(), AtLeast: atLeast}
}

// climb is a choice whose sizes only grow.
type climb struct {
	frontiers [][]Point
	at        []int // current point of each frontier
	left      int64 // remaining memory
	moved     int64
}

// newClimb starts at the cheapest points.
func newClimb(p *Problem, memory int64) *climb {
	g := &climb{at: make([]int, len(p.Curves)), left: memory}
	for i := range p.Curves {
		f := p.Curves[i].frontier()
		g.frontiers = append(g.frontiers, f)
		g.left -= f[0].Cost
		g.moved += f[0].Moved
	}
	return g
}

func (g *climb) take(s step) {
	g.at[s.curve] = s.to
	g.left -= s.cost
	g.moved -= s.gain
}

// steps returns the steps of all envelopes. Along a curve their ratios fall.
func (g *climb) steps() (steps []step) {
	for c, f := range g.frontiers {
		first := len(steps)
		for to := 1; to < len(f); to++ {
			s := step{c, to, f[to].Cost - f[to-1].Cost, f[to-1].Moved - f[to].Moved}
			for len(steps) > first && byRatio(steps[len(steps)-1], s) > 0 { // the previous step is less steep, so merge it with this one
				before := steps[len(steps)-1]
				s.cost, s.gain = s.cost+before.cost, s.gain+before.gain
				steps = steps[:len(steps)-1]
			}
			steps = append(steps, s)
		}
	}
	return steps
}

// fill takes the step with the best ratio among those that fit, until none fits. Among equals it
// takes the cheaper one, then that of the lower layer and head.
func (g *climb) fill() {
	for {
		best := step{cost: 1}
		for c, f := range g.frontiers {
			now := f[g.at[c]]
			for to := g.at[c] + 1; to < len(f) && f[to].Cost-now.Cost <= g.left; to++ {
				s := step{c, to, f[to].Cost - now.Cost, now.Moved - f[to].Moved}
				if order := byRatio(s, best); order < 0 || order == 0 && s.cost < best.cost {
					best = s
				}
			}
		}
		if best.gain == 0 {
			return
		}
		g.take(best)
	}
}

func (g *climb) sizes() []int {
	return slice.Map(slice.Indices(len(g.at)), func(c int) int { return g.frontiers[c][g.at[c]].Size })
}
