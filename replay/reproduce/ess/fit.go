package ess

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// fitted holds fitted constants, their relative errors and the slopes of the errors.
type fitted struct {
	at     []float64
	errors []float64
	slopes *mat.Dense // slope of each error by each constant
}

// fit searches the constants of a model for the least sum of squares of the relative errors of
// cells. It takes Gauss-Newton steps with the slopes at the start, because the time of a step is
// nearly linear in each constant. With as many constants as cells, it meets the cells exactly.
func fit(errorsAt func(x []float64) []float64, start []float64) (f *fitted, err error) {
	const enough, rounds = 1e-6, 50
	f = &fitted{at: append([]float64{}, start...)}
	for range rounds {
		f.errors = errorsAt(f.at)
		if f.slopes == nil {
			f.slopes = slopes(errorsAt, f.at, f.errors)
		}
		move, err := f.towards(nil)
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
	return nil, fmt.Errorf("constants %g still change after %d steps", f.at, rounds)
}

// slopes returns differences over a thousandth of each constant.
func slopes(errorsAt func(x []float64) []float64, x, e []float64) *mat.Dense {
	m := mat.NewDense(len(e), len(x), nil)
	for j := range x {
		shifted := append([]float64{}, x...)
		shifted[j] *= 1.001
		after := errorsAt(shifted)
		for i := range e {
			m.Set(i, j, (after[i]-e[i])/(shifted[j]-x[j]))
		}
	}
	return m
}

// towards returns the move to the least weighted sum of squares of the errors, by the slopes. nil
// weighs all cells alike.
func (f *fitted) towards(weights []float64) ([]float64, error) {
	cells, constants := f.slopes.Dims()
	a, b := mat.NewDense(cells, constants, nil), mat.NewDense(cells, 1, nil)
	for i := range cells {
		w := 1.
		if weights != nil {
			w = math.Sqrt(weights[i])
		}
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

// after returns the errors after the constants have moved, by the slopes.
func (f *fitted) after(move []float64) []float64 {
	var e mat.VecDense
	e.MulVec(f.slopes, mat.NewVecDense(len(move), move))
	out := append([]float64{}, f.errors...)
	for i := range out {
		out[i] += e.AtVec(i)
	}
	return out
}

// floor returns the smallest possible largest error for any constants (Lawson's iteration, in which
// weights grow with the error).
func (f *fitted) floor() float64 {
	weights, least := slices.Repeat([]float64{1}, len(f.errors)), math.Inf(1)
	for range 500 {
		move := reproduce.Must(f.towards(weights))
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
	return least
}

// leaveOneOut returns the error of each cell with constants fitted to the others.
func (f *fitted) leaveOneOut() (out []float64) {
	for left := range f.errors {
		weights := slices.Repeat([]float64{1}, len(f.errors))
		weights[left] = 0
		out = append(out, f.after(reproduce.Must(f.towards(weights)))[left])
	}
	return out
}

func largest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}

// choices holds the worst error on the other cells for each choice of calibration cells, by the
// slopes of a fit to all cells.
type choices struct {
	cells  [][]int
	worst  []float64 // for each choice, relative
	chosen int       // cells in a choice
	all    int       // cells
}

// vagueness is the condition number above which cells do not determine the constants. At this
// number, an error of 0.05 % in the table moves a constant by its own size.
const vagueness = 2e3

// choices tries every set with as many cells as constants. It leaves out those that do not determine
// the constants.
func (f *fitted) choices() *choices {
	all, constants := f.slopes.Dims()
	c := &choices{chosen: constants, all: all}
	for _, cells := range combin.Combinations(all, constants) {
		weights := make([]float64, all)
		for _, cell := range cells {
			weights[cell] = 1
		}
		if move, err := f.towards(weights); err == nil && !f.vague(cells) {
			c.cells, c.worst = append(c.cells, cells), append(c.worst, largest(f.after(move)))
		}
	}
	return c
}

// vague reports whether the cells leave a combination of the constants undetermined.
func (f *fitted) vague(cells []int) bool {
	n := len(cells)
	m := mat.NewDense(n, n, nil)
	for i, cell := range cells {
		for j := range n {
			m.Set(i, j, f.slopes.At(cell, j)*f.at[j])
		}
	}
	var lu mat.LU // mat.Cond would link SVD, whose code takes 0.16 MB
	lu.Factorize(m)
	return !(lu.Cond() < vagueness)
}

// compare compares one choice with all of them, in percent. It returns nil if the choice does
// not determine the constants.
func (c *choices) compare(used []int) reproduce.Row {
	slices.Sort(used)
	at := slices.IndexFunc(c.cells, func(cells []int) bool { return slices.Equal(cells, used) })
	if at < 0 {
		return nil
	}
	worst := slices.Sorted(slices.Values(c.worst))
	return reproduce.Row{"choices": len(worst), "chosen": c.chosen, "all": c.all,
		"least": 100 * worst[0], "most": 100 * worst[len(worst)-1], "median": 100 * median(worst),
		"own": 100 * c.worst[at], "better": slices.Index(worst, c.worst[at])}
}
