package synthetic

import (
	"math"

	"gonum.org/v1/gonum/optimize"
)

// survival counts times in steps, of which some were cut off by the end of the trace:
// then it is only known that they exceed what was seen of them, less one.
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

// fewest is the number of times that a point of a curve rests on at least.
const fewest = 30

// curve is the Kaplan–Meier estimate of P(X > x) for x = 1, 2, …, as far as at least
// fewest times are known to reach x.
func (s *survival) curve() []float64 {
	atRisk := int64(0)
	for i := range s.ended {
		atRisk += s.ended[i] + s.cut[i]
	}
	var curve []float64
	share := 1.0
	for x := 1; x < len(s.ended); x++ {
		atRisk -= s.ended[x-1] + s.cut[x] // what was cut at x may end at x
		if atRisk < fewest {
			break
		}
		share *= 1 - float64(s.ended[x])/float64(atRisk)
		curve = append(curve, share)
	}
	return curve
}

// fitLogLogistic fits 1/(1 + (x/m)^β) to a curve by least squares, each octave of x
// with equal weight. ok is false where there are fewer than three points.
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

// classes measures how much values that share a class resemble each other.
type classes struct{ n, sum, squares []float64 }

func (c *classes) add(class int, v float64) {
	for len(c.n) <= class {
		c.n, c.sum, c.squares = append(c.n, 0), append(c.sum, 0), append(c.squares, 0)
	}
	c.n[class]++
	c.sum[class] += v
	c.squares[class] += v * v
}

// correlation is the intraclass correlation, estimated from the analysis of variance;
// 0 where there are too few values.
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
