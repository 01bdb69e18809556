package synthetic

import (
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/kvreplay/kvreplay/trace"
)

// measure gathers the input of the estimates, from streams that share their dials.
type measure struct {
	topK  int
	local int // number of last tokens that are pinned, 0 if lists may name all

	runs, gaps survival
	recent     survival // first runs of generated tokens
	freshGaps  survival // first gaps of blocks first seen after underWay rows

	after, common  int64 // demand at counted steps after the first, and its repeated part
	born, steps    int64 // rows after the first, and those at which the newest token enters
	entered        int64 // blocks at steps after the first row that the row before lacks
	counted        int64 // of entered, in counted steps
	fromCandidates int64 // of entered, candidates of the row before
	fresh, behind  int64 // first-seen blocks, and those whose left neighbour is demanded too
	strange        int64 // of entered, in counted steps, not demanded for longTime rows or never
	unknown        int64 // of entered, in counted steps, never demanded before
	bursts         []float64
	company        float64 // sum over streams
	streams        int

	rows     int     // of the current stream
	state    []state // by block
	gone     classes // gaps by the row of their beginning
	entering []arrival
	now      []float64
}

// state is the history of a block in a stream.
type state struct {
	last      int32 // row of its last demand, -1 before the first
	start     int32 // row of its run's first demand, -1 for a run that began before the stream
	candidate int32 // last row that had it among the candidates, -1 for none
	born      bool  // its run is the first of a generated token
	fresh     bool  // its last run was its first, begun after underWay rows
}

const (
	underWay   = 16 // rows after which a block's first demand follows a long gap
	longTime   = 24 // rows after which a block is a stranger
	longestGap = 32 // rows: limit of gaps that are compared with each other
)

// stream adds a stream. Rows count as steps.
func (m *measure) stream(s *trace.Stream) {
	m.streams++
	m.rows = s.Rows
	m.state = resized(m.state, s.MaxSeqLen())
	for x := range m.state {
		m.state[x] = state{last: -1, start: -1, candidate: -1}
	}
	m.gone, m.now = classes{}, m.now[:0]
	var before []int32
	for t := range s.Rows {
		list := s.List(t)
		k := min(m.topK, len(list))
		m.row(s, t, list[:k], before)
		for _, x := range list[k:] {
			m.state[x].candidate = int32(t)
		}
		before = list[:k]
	}
	m.end()
	m.bursts = append(m.bursts, variation(m.now))
	m.company += m.gone.correlation()
}

// row adds the demand of row t. before is the demand of the row before.
func (m *measure) row(s *trace.Stream, t int, demand, before []int32) {
	m.entering = m.entering[:0]
	for _, x := range demand {
		b := &m.state[x]
		if t > 0 && int(b.last) < t-1 {
			m.entering = append(m.entering, arrival{x, b.last})
		}
		b.last = int32(t)
	}
	for _, a := range m.entering {
		m.enter(s, t, a)
	}
	for _, x := range before {
		if b := &m.state[x]; b.last < int32(t) {
			m.exit(t, b)
		}
	}
	if t == 0 {
		return
	}
	m.steps++
	m.now = append(m.now, float64(len(m.entering)))
	if t > s.Windows {
		m.after += int64(len(demand))
		m.common += int64(len(demand) - len(m.entering))
	}
}

// arrival is a block that enters, with the row of its last demand.
type arrival struct{ block, last int32 }

func (m *measure) enter(s *trace.Stream, t int, a arrival) {
	b := &m.state[a.block]
	newest := int(a.block) == s.SeqLen(t)-1-m.local
	m.entered++
	if int(b.candidate) == t-1 {
		m.fromCandidates++
	}
	if t >= s.Windows {
		m.counted++
		if !newest && a.last < 0 {
			m.unknown++
		}
		if !newest && (a.last < 0 || t-int(a.last) > longTime) {
			m.strange++
		}
	}
	switch {
	case a.last >= 0:
		m.gap(int(a.last)+1, t, b, false)
	case newest:
		m.born++
	default:
		m.fresh++
		if a.block > 0 && m.state[a.block-1].last == int32(t) {
			m.behind++
		}
	}
	b.fresh = a.last < 0 && !newest && t > underWay
	b.start, b.born = int32(t), newest
}

func (m *measure) exit(t int, b *state) {
	switch {
	case b.start < 0:
	case b.born:
		m.recent.add(t-int(b.start), false)
	default:
		m.runs.add(t-int(b.start), false)
	}
}

// gap adds the gap of a block from row from to row to.
func (m *measure) gap(from, to int, b *state, cut bool) {
	m.gaps.add(to-from, cut)
	if b.fresh {
		m.freshGaps.add(to-from, cut)
	}
	if from+longestGap <= m.rows {
		m.gone.add(from, math.Log(float64(min(to-from, longestGap))))
	}
}

// end cuts the runs and gaps that last beyond the last row.
func (m *measure) end() {
	rows := m.rows
	for x := range m.state {
		switch b := &m.state[x]; {
		case b.last < 0:
		case int(b.last) < rows-1:
			m.gap(int(b.last)+1, rows, b, true)
		case b.start < 0:
		case b.born:
			m.recent.add(rows-int(b.start), true)
		default:
			m.runs.add(rows-int(b.start), true)
		}
	}
}

// rounding is the largest squared variation that rounding gives to equal values.
const rounding = 1e-24

// variation returns the coefficient of variation, 0 for fewer than two values.
func variation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	mean, square := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		square += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	if square <= rounding*mean*mean { // all equal, or all 0
		return 0
	}
	return math.Sqrt(square) / mean
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// survival counts times in steps. The end of the trace cuts some of them. A cut time is only known
// to exceed its observed steps less one.
type survival struct{ ended, cut []int64 }

func (s *survival) add(steps int, cut bool) {
	for len(s.ended) <= steps {
		s.ended, s.cut = append(s.ended, 0), append(s.cut, 0)
	}
	if cut {
		s.cut[steps]++
	} else {
		s.ended[steps]++
	}
}

// fewest is the least number of times behind a point of a curve.
const fewest = 30

// curve returns the Kaplan–Meier estimate of P(X > x) for x = 1, 2, …, while at least fewest times
// are known to reach x.
func (s *survival) curve() []float64 {
	atRisk := int64(0)
	for i := range s.ended {
		atRisk += s.ended[i] + s.cut[i]
	}
	var curve []float64
	share := 1.0
	for x := 1; x < len(s.ended); x++ {
		atRisk -= s.ended[x-1] + s.cut[x] // a time that was cut at x may end at x
		if atRisk < fewest {
			break
		}
		share *= 1 - float64(s.ended[x])/float64(atRisk)
		curve = append(curve, share)
	}
	return curve
}

// fitLogLogistic fits 1/(1 + (x/m)^β) to a curve by least squares, with equal weight for each
// octave of x. ok is false if there are fewer than three points.
func fitLogLogistic(curve []float64) (median, shape float64, ok bool) {
	if len(curve) < 3 {
		return 0, 0, false
	}
	misfit := func(p []float64) float64 {
		sum := 0.0
		for i, s := range curve {
			x := float64(i + 1)
			d := 1/(1+math.Exp((math.Log(x)-p[0])*math.Exp(p[1]))) - s
			sum += d * d / x
		}
		return sum
	}
	r, err := optimize.Minimize(optimize.Problem{Func: misfit}, []float64{1, 0}, nil, &optimize.NelderMead{})
	if err != nil || r == nil {
		return 0, 0, false
	}
	return math.Exp(r.X[0]), math.Exp(r.X[1]), true
}

// classes measures the resemblance of values that share a class.
type classes struct{ n, sum, squares []float64 }

func (c *classes) add(class int, v float64) {
	for len(c.n) <= class {
		c.n, c.sum, c.squares = append(c.n, 0), append(c.sum, 0), append(c.squares, 0)
	}
	c.n[class]++
	c.sum[class] += v
	c.squares[class] += v * v
}

// correlation returns the intraclass correlation, estimated from the analysis of variance, or 0 if
// there are too few values.
func (c *classes) correlation() float64 {
	var total, sum, groups, squared float64
	for i, n := range c.n {
		if n > 0 {
			total, sum, groups, squared = total+n, sum+c.sum[i], groups+1, squared+n*n
		}
	}
	if groups < 2 || total <= groups {
		return 0
	}
	within, between := 0.0, 0.0
	for i, n := range c.n {
		if n > 0 {
			mean := c.sum[i] / n
			within += c.squares[i] - n*mean*mean
			between += n * (mean - sum/total) * (mean - sum/total)
		}
	}
	between, within = between/(groups-1), within/(total-groups)
	size := (total - squared/total) / (groups - 1) // mean size of a class
	if within+between <= 0 {
		return 0
	}
	return (between - within) / (between + (size-1)*within)
}
