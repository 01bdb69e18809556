package ess

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// fitted are constants with the relative errors that they leave, and the errors' slopes.
type fitted struct {
	at     []float64
	errors []float64
	slopes *mat.Dense // of each error by each constant
}

// fit searches the constants of a model whose relative errors, cell by cell, have the
// least sum of squares: steps of Gauss and Newton with the slopes at the start, as the
// time of a step is nearly a straight line in each. As many cells as constants are met
// exactly.
func fit(errorsAt func(x []float64) ([]float64, error), start []float64) (f *fitted, err error) {
	const enough, rounds = 1e-6, 50
	f = &fitted{at: append([]float64{}, start...)}
	for range rounds {
		if f.errors, err = errorsAt(f.at); err != nil {
			return nil, err
		}
		if f.slopes == nil {
			if f.slopes, err = slopes(errorsAt, f.at, f.errors); err != nil {
				return nil, err
			}
		}
		move, err := f.towards(func(int) float64 { return 1 })
		if err != nil {
			return nil, err
		}
		for j := range f.at {
			f.at[j] += move[j]
			move[j] /= f.at[j]
		}
		if largest(move) < enough {
			return f, nil
		}
	}
	return nil, fmt.Errorf("constants %g are still moving after %d steps", f.at, rounds)
}

// slopes are differences over a thousandth of each constant.
func slopes(errorsAt func(x []float64) ([]float64, error), x, e []float64) (*mat.Dense, error) {
	m := mat.NewDense(len(e), len(x), nil)
	for j := range x {
		moved := append([]float64{}, x...)
		moved[j] *= 1.001
		after, err := errorsAt(moved)
		if err != nil {
			return nil, err
		}
		for i := range e {
			m.Set(i, j, (after[i]-e[i])/(moved[j]-x[j]))
		}
	}
	return m, nil
}

// towards is the move to the least weighted sum of squares of the errors, as the slopes
// have it.
func (f *fitted) towards(weight func(cell int) float64) ([]float64, error) {
	cells, constants := f.slopes.Dims()
	a, b := mat.NewDense(cells, constants, nil), mat.NewDense(cells, 1, nil)
	for i := range cells {
		w := math.Sqrt(weight(i))
		for j := range constants {
			a.Set(i, j, w*f.slopes.At(i, j))
		}
		b.Set(i, 0, -w*f.errors[i])
	}
	var x mat.Dense
	if err := x.Solve(a, b); err != nil {
		return nil, fmt.Errorf("fit of %d constants to %d cells: %w", constants, cells, err)
	}
	return mat.Col(nil, 0, &x), nil
}

// after are the errors once the constants have moved, as the slopes have it.
func (f *fitted) after(move []float64) []float64 {
	var e mat.VecDense
	e.MulVec(f.slopes, mat.NewVecDense(len(move), move))
	out := append([]float64{}, f.errors...)
	for i := range out {
		out[i] += e.AtVec(i)
	}
	return out
}

// floor is the least that the largest error can be, whatever the constants (Lawson's
// iteration: weights grow with the error).
func (f *fitted) floor() (float64, error) {
	weights := make([]float64, len(f.errors))
	for i := range weights {
		weights[i] = 1
	}
	least := math.Inf(1)
	for range 500 {
		move, err := f.towards(func(i int) float64 { return weights[i] })
		if err != nil {
			return 0, err
		}
		e, sum := f.after(move), 0.
		least = min(least, largest(e))
		for i := range weights {
			weights[i] *= math.Abs(e[i])
			sum += weights[i]
		}
		for i := range weights {
			weights[i] /= sum
		}
	}
	return least, nil
}

// leaveOneOut are the errors of each cell with the constants that the others give.
func (f *fitted) leaveOneOut() (out []float64, err error) {
	for left := range f.errors {
		move, err := f.towards(func(i int) float64 {
			if i == left {
				return 0
			}
			return 1
		})
		if err != nil {
			return nil, err
		}
		out = append(out, f.after(move)[left])
	}
	return out, nil
}

func largest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}
