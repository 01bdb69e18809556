package board

import (
	"math"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Pair compares the values of a candidate with those of a baseline in the same repeats.
type Pair struct {
	// Ratio is the sum of the candidate ÷ that of the baseline. Low and High are its 95 % interval
	// over resamples of the repeats. They are nil if they are undefined.
	Ratio, Low, High *float64
	// P is that of the paired permutation test, corrected for the number of candidates (Holm).
	P *float64
}

// Pairs compares candidates with a baseline. Repeat i of all has the same input, and values are at
// least 0. With fewer than MinRequests repeats there are no intervals.
func Pairs(baseline []float64, candidates [][]float64, seed uint64) []Pair {
	n := len(baseline)
	series := append([][]int64{scaled(baseline)}, slice.Map(candidates, scaled)...)
	sums := slice.Map(series, func([]int64) []float64 { return make([]float64, DefaultResamples) })
	newDraws(seed, "repeats", n, DefaultResamples).all(series, sums)
	all, ps := make([]Pair, len(candidates)), make([]float64, len(candidates))
	for i, c := range candidates {
		ratios, a, b := sums[1+i], 0., 0.
		for k := range ratios {
			ratios[k] /= sums[0][k]
		}
		for k := range c {
			a, b = a+c[k], b+baseline[k]
		}
		all[i].Ratio = Number(a / b)
		if n >= MinRequests {
			all[i].Low, all[i].High = interval(ratios, tail([]int{n}))
		}
		cells := []sides{{"repeats", c, baseline}}
		ps[i] = newSwaps(seed, cells).p(cells, logRatio)
	}
	for i, p := range holm(ps) {
		all[i].P = Number(p)
	}
	return all
}

// scaled returns values in units of 1e-9.
func scaled(values []float64) []int64 {
	return slice.Map(values, func(v float64) int64 { return int64(math.Round(v * 1e9)) })
}
