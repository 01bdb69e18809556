package kvpr

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"
)

// solve finds one positive constant per printed cell such that the cells are met. predicted returns
// our cells for some constants. It applies Newton's method to the logarithms of both, with slopes
// by differences. In logarithms, times are nearly linear in rates.
func solve(start, printed []float64, predicted func(constants []float64) []float64) ([]float64, error) {
	const most, enough = 30, 1e-10
	n := len(start)
	x, miss := make([]float64, n), make([]float64, n)
	for i, c := range start {
		x[i] = math.Log(c)
	}
	misses := func(dst, x []float64) {
		constants := make([]float64, n)
		for i := range x {
			constants[i] = math.Exp(x[i])
		}
		ours := predicted(constants)
		for i := range dst {
			dst[i] = math.Log(ours[i] / printed[i])
		}
	}
	for range most {
		misses(miss, x)
		if worst(miss) < enough {
			for i := range x {
				x[i] = math.Exp(x[i])
			}
			return x, nil
		}
		slopes, step := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
		fd.Jacobian(slopes, misses, x, &fd.JacobianSettings{Step: 1e-5, OriginValue: miss})
		if err := step.SolveVec(slopes, mat.NewVecDense(n, miss)); err != nil {
			return nil, fmt.Errorf("fit %d constants: %w", n, err)
		}
		for i := range x {
			x[i] -= max(-math.Ln2, min(step.AtVec(i), math.Ln2)) // no constant more than doubles in one step
		}
	}
	return nil, fmt.Errorf("fit %d constants: off by %.3g after %d steps", n, worst(miss), most)
}

// between finds the constant of low … high at which our figure meets a printed cell, by bisection
// of its logarithm. Our figure must fall as the constant grows. Recomputing needs bisection because
// whole positions are recomputed: its time is flat in some parts and falls in others.
func between(low, high, printed float64, predicted func(constant float64) float64) (float64, error) {
	const halvings = 60
	a, b := math.Log(low), math.Log(high)
	for i := range halvings + 2 {
		x := (a + b) / 2
		switch i {
		case 0:
			x = a
		case 1:
			x = b
		}
		ours := predicted(math.Exp(x))
		switch {
		case i < 2 && (ours > printed) != (i == 0):
			return 0, fmt.Errorf("no constant between %g and %g gives %g: at %g it is %g",
				low, high, printed, math.Exp(x), ours)
		case ours > printed:
			a = x
		default:
			b = x
		}
	}
	return math.Exp((a + b) / 2), nil
}

// worst returns the largest absolute value, infinite if one is NaN.
func worst(values []float64) (most float64) {
	for _, v := range values {
		if math.IsNaN(v) {
			return math.Inf(1)
		}
		most = max(most, math.Abs(v))
	}
	return most
}
