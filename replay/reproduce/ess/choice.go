package ess

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/combin"
)

// choices are the worst errors that each choice of calibration cells leaves on the other
// cells, by the slopes of a fit to all cells.
type choices struct {
	cells  [][]int
	worst  []float64 // of each choice, relative
	vague  int       // choices that do not determine the constants
	chosen int       // cells of a choice
	all    int       // cells
}

// vagueness is the condition number from which cells do not determine the constants. With it,
// an error of 0.05 % in the table moves a constant by its own size.
const vagueness = 2e3

// choices tries every set of as many cells as constants.
func (f *fitted) choices() *choices {
	all, constants := f.slopes.Dims()
	c := &choices{chosen: constants, all: all}
	for _, cells := range combin.Combinations(all, constants) {
		if f.vague(cells) {
			c.vague++
			continue
		}
		move, err := f.towards(func(cell int) float64 {
			if slices.Contains(cells, cell) {
				return 1
			}
			return 0
		})
		if err != nil {
			c.vague++
			continue
		}
		c.cells, c.worst = append(c.cells, cells), append(c.worst, largest(f.after(move)))
	}
	return c
}

// vague reports whether cells leave a combination of the constants open.
func (f *fitted) vague(cells []int) bool {
	n := len(cells)
	m := mat.NewDense(n, n, nil)
	for i, cell := range cells {
		for j := range n {
			m.Set(i, j, f.slopes.At(cell, j)*f.at[j])
		}
	}
	return !(mat.Cond(m, 2) < vagueness)
}

// text compares one choice with all of them.
func (c *choices) text(used []int) string {
	slices.Sort(used)
	at := slices.IndexFunc(c.cells, func(cells []int) bool { return slices.Equal(cells, used) })
	if at < 0 {
		return "the calibration cells do not determine the constants"
	}
	worst := slices.Sorted(slices.Values(c.worst))
	better := slices.Index(worst, c.worst[at])
	return fmt.Sprintf("%d choices of %d of the %d steps determine the constants. Their worst errors of a step's time range from %.1f %% to %.1f %%, median %.1f %%. The calibration cells leave %.1f %%, and %d of the choices leave less",
		len(worst), c.chosen, c.all, 100*worst[0], 100*worst[len(worst)-1], 100*median(worst), 100*c.worst[at], better)
}
