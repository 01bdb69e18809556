package render

import (
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
)

// mostMarks is how many points of a curve are marked; a curve of more is drawn by its
// line, with marks to tell it from others.
const mostMarks = 16

// linePoints is plotter.NewLinePoints with marks at some points of a dense curve: those
// at capacities that readers know.
func linePoints(points plotter.XYs) (*plotter.Line, *plotter.Scatter, error) {
	var sizes []float64
	for _, p := range points {
		sizes = append(sizes, p.X)
	}
	known := knownSizes(sizes)
	marked := slices.DeleteFunc(slices.Clone(points), func(p plotter.XY) bool { return !slices.Contains(known, p.X) })
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, nil, err
	}
	marks, err := plotter.NewScatter(marked)
	return line, marks, err
}

// knownSizes are all of a few capacities ÷ K; of many, powers of two and 1.5 times
// them, or as many as there is room for where those are too few.
func knownSizes(sizes []float64) []float64 {
	if len(sizes) <= mostMarks {
		return sizes
	}
	known := slices.DeleteFunc(slices.Clone(sizes), func(x float64) bool {
		return !isPowerOfTwo(x) && !isPowerOfTwo(x/1.5)
	})
	if len(known) >= 4 {
		return known
	}
	known = known[:0]
	for i := range mostMarks {
		known = append(known, sizes[i*(len(sizes)-1)/(mostMarks-1)])
	}
	return known
}

func isPowerOfTwo(x float64) bool {
	fraction, _ := math.Frexp(x)
	return fraction == 0.5
}
