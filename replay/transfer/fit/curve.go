// Package fit finds the constants of package transfer's models from measured points. It reports
// residuals, and the error of each point when it is left out. It also compares the models of the
// data files with every measurement in them.
package fit

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Point is one measurement of a path.
type Point struct {
	Request transfer.Request
	Seconds float64
	Line    int // line in its file, 0 if none
}

// block returns the mean size of the point's pieces.
func (p *Point) block() float64 { return float64(p.Request.Bytes) / float64(p.Request.Descriptors) }

// Form is the form of the fitted curve.
type Form struct {
	From   []float64 // bytes at which regimes begin, ascending from 0, nil for one regime
	Inline []bool    // regimes in which the submitting thread moves the bytes, nil for none
	Batch  bool      // submission goes ahead of the engine, so Submit and Ahead are fitted too
	// Translate fits Submit of a kernel: the time to translate a piece's address, which overlaps its bytes.
	Translate bool
	Packets   transfer.Packets // packets of the link, the zero value has no headers
	SMs       float64          // copied to the curve
	// MaxRate is the largest rate, that of the link, in bytes/s. 0 is no bound.
	MaxRate float64
}

// Result is a fitted curve.
type Result struct {
	Curve *transfer.Curve
	// Zero names constants that the points cannot distinguish from others. They stay 0.
	Zero []string
	// Errors are predicted ÷ measured − 1. LeftOut are the same with constants fitted to the other
	// points, or NaN if those are too few to fit a regime.
	Errors, LeftOut []float64
}

// Curve fits a curve by the least sum of soft errors, and again without each point in turn. Each
// regime needs a point.
func Curve(points []Point, form Form) (*Result, error) {
	if form.From == nil {
		form.From = []float64{0}
	}
	f, err := newFitting(points, form)
	if err != nil {
		return nil, err
	}
	constants := f.solve(f.start(), wide)
	r := &Result{Curve: f.make(constants)}
	for _, c := range f.left {
		r.Zero = append(r.Zero, c.name)
	}
	for i := range points {
		r.Errors = append(r.Errors, relative(r.Curve.Time(points[i].Request), points[i].Seconds))
		r.LeftOut = append(r.LeftOut, f.leftOut(i, constants))
	}
	return r, nil
}

// leftOut predicts a point from the others. The search starts at the constants of all points.
func (f *fitting) leftOut(i int, constants []float64) float64 {
	others, err := newFitting(slices.Delete(slices.Clone(f.points), i, i+1), f.form)
	if err != nil {
		return math.NaN()
	}
	start, scales := others.start(), wide
	if slices.EqualFunc(others.free, f.free, func(a, b constant) bool { return a.name == b.name }) {
		start, scales = constants, near
	}
	c := others.make(others.solve(start, scales))
	return relative(c.Time(f.points[i].Request), f.points[i].Seconds)
}

// fitting is a curve with some free constants.
type fitting struct {
	points []Point
	form   Form
	free   []constant
	left   []constant // constants that the points do not determine
	rateOf []int      // the regime whose rate a regime uses
}

// constant is one number of a curve: its name, its factor and its setter.
type constant struct {
	name   string
	column func(p *Point) float64 // factor in the sum that gives a time
	set    func(c *transfer.Curve, v float64)
}

func newFitting(points []Point, form Form) (*fitting, error) {
	f := &fitting{points: points, form: form}
	count := make([]int, len(form.From))
	for i := range points {
		count[regimeOf(form.From, points[i].block())]++
	}
	for r, n := range count {
		if n == 0 {
			return nil, fmt.Errorf("no point has blocks of %.0f bytes or more", form.From[r])
		}
	}
	f.choose()
	return f, nil
}

func regimeOf(from []float64, block float64) int {
	r := len(from) - 1
	for r > 0 && from[r] > block {
		r--
	}
	return r
}

// choose frees the constants that the points determine: the rates, then the cost of each
// descriptor, then the launch. A constant that they cannot distinguish from earlier ones stays 0. A
// regime with blocks of one size uses the rate of a regime with several sizes, if one exists.
func (f *fitting) choose() {
	f.shareRates()
	for r := range f.form.From {
		if f.rateOf[r] == r {
			f.free = append(f.free, f.rate(r))
		}
	}
	var more []constant
	for r := range f.form.From {
		if !f.inline(r) { // inline: submission is the descriptor's cost
			more = append(more, f.descriptor(r))
		}
	}
	switch {
	case f.form.Batch: // submission ahead of the engine includes its launch
	case f.counts():
		more = append(more, launch())
	default:
		f.left = append(f.left, launch())
	}
	for _, c := range more {
		if f.independent(append(slices.Clone(f.free), c)) {
			f.free = append(f.free, c)
		} else {
			f.left = append(f.left, c)
		}
	}
}

func (f *fitting) inline(r int) bool { return r < len(f.form.Inline) && f.form.Inline[r] }

// shareRates finds the regime whose rate each regime uses.
func (f *fitting) shareRates() {
	f.rateOf = make([]int, len(f.form.From))
	source := -1
	for r := range f.form.From {
		f.rateOf[r] = r
		if f.sizes(r) > 1 {
			source = r // the last one has large blocks
		}
	}
	for r := range f.form.From {
		if source >= 0 && f.sizes(r) == 1 && !f.inline(r) {
			f.rateOf[r] = source
		}
	}
}

// sizes returns the number of block sizes among a regime's points.
func (f *fitting) sizes(r int) int {
	seen := map[float64]bool{}
	for i := range f.points {
		if b := f.points[i].block(); regimeOf(f.form.From, b) == r {
			seen[b] = true
		}
	}
	return len(seen)
}

func (f *fitting) rate(r int) constant {
	perPacket := transfer.Curve{Packets: f.form.Packets, Regimes: []transfer.Regime{{Rate: 1}}}
	return constant{fmt.Sprintf("regimes[%d].rate", r),
		func(p *Point) float64 {
			if f.rateOf[regimeOf(f.form.From, p.block())] != r {
				return 0
			}
			one := p.Request
			one.Launches = 0
			return perPacket.Time(one)
		},
		func(c *transfer.Curve, v float64) {
			rate := 1 / v
			if f.form.MaxRate > 0 {
				rate = min(rate, f.form.MaxRate)
			}
			for i, source := range f.rateOf {
				if source == r {
					c.Regimes[i].Rate = rate
				}
			}
		}}
}

func (f *fitting) descriptor(r int) constant {
	return constant{fmt.Sprintf("regimes[%d].descriptor", r),
		func(p *Point) float64 {
			if regimeOf(f.form.From, p.block()) != r {
				return 0
			}
			return float64(p.Request.Descriptors)
		},
		func(c *transfer.Curve, v float64) { c.Regimes[r].Descriptor = v }}
}

// counts reports whether some points differ in blocks per launch and not in block size. Without
// such a pair, the launch cannot be separated from other constants.
func (f *fitting) counts() bool {
	seen := map[float64]float64{}
	for i := range f.points {
		p := &f.points[i]
		n := float64(p.Request.Descriptors) / float64(p.Request.Launches)
		if other, ok := seen[p.block()]; ok && other != n {
			return true
		}
		seen[p.block()] = n
	}
	return false
}

func launch() constant {
	return constant{"launch",
		func(p *Point) float64 { return float64(p.Request.Launches) },
		func(c *transfer.Curve, v float64) { c.Launch = v }}
}

// matrix has a row per point and a column per constant, both relative to the measured times.
func (f *fitting) matrix(constants []constant) *mat.Dense {
	m := mat.NewDense(len(f.points), len(constants), nil)
	for i := range f.points {
		for j, c := range constants {
			m.Set(i, j, c.column(&f.points[i])/f.points[i].Seconds)
		}
	}
	for j := range constants { // scale columns to unit length, so that ranks do not depend on units
		column := m.ColView(j)
		if norm := mat.Norm(column, 2); norm > 0 {
			for i := range f.points {
				m.Set(i, j, column.AtVec(i)/norm)
			}
		}
	}
	return m
}

// independent reports whether the points determine the constants separately.
func (f *fitting) independent(constants []constant) bool {
	needed := len(constants)
	if f.form.Batch {
		needed += 2
	}
	if f.form.Translate {
		needed++
	}
	if len(f.points) < needed {
		return false
	}
	var qr mat.QR // SVD would be more exact, but its code takes 0.16 MB
	qr.Factorize(f.matrix(constants))
	return qr.Cond() < 1e3
}

// start divides each time among the free constants, as the start of the search.
func (f *fitting) start() []float64 {
	start := make([]float64, len(f.free), len(f.free)+2)
	for j, c := range f.free {
		var sum, n float64
		for i := range f.points {
			if factor := c.column(&f.points[i]); factor > 0 {
				sum += math.Log(f.points[i].Seconds / factor)
				n++
			}
		}
		start[j] = math.Exp(sum/n) / 3
	}
	if f.form.Batch {
		start = append(start, 0.5e-6, 1e4) // µs per descriptor and thousands ahead, the order of drivers
	}
	if f.form.Translate {
		start = append(start, 3e-8) // the order of a miss in a table of pages
	}
	return start
}

// curve sets the constants of a curve.
func (f *fitting) curve(constants []float64, c *transfer.Curve) {
	for j := range f.free {
		f.free[j].set(c, constants[j])
	}
	if f.form.Batch {
		c.Submit, c.Ahead = constants[len(f.free)], constants[len(f.free)+1]
	}
	if f.form.Translate {
		c.Submit = constants[len(f.free)]
	}
}

// make returns a new curve with some constants.
func (f *fitting) make(constants []float64) *transfer.Curve {
	c := &transfer.Curve{Packets: f.form.Packets, SMs: f.form.SMs}
	for r, from := range f.form.From {
		c.Regimes = append(c.Regimes, transfer.Regime{From: from, Inline: f.inline(r)})
	}
	f.curve(constants, c)
	return c
}

// solve finds the constants with the least loss.
func (f *fitting) solve(start []float64, scales func(n int) [][]float64) []float64 {
	c := f.make(start)
	return minimize(start, scales(len(start)), func(constants []float64) (sum float64) {
		f.curve(constants, c)
		for i := range f.points {
			sum += loss(c.Time(f.points[i].Request), f.points[i].Seconds)
		}
		return sum
	})
}
