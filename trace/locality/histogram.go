package locality

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Histogram counts small non-negative integers: Histogram[v] values are v.
type Histogram []int64

// Add counts value n times.
func (h *Histogram) Add(value int, n int64) {
	if value >= len(*h) {
		*h = append(*h, make([]int64, value+1-len(*h))...)
	}
	(*h)[value] += n
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(o Histogram) {
	if len(o) > 0 {
		h.Add(len(o)-1, 0)
	}
	for v, n := range o {
		(*h)[v] += n
	}
}

// Quantiles are of a distribution of integers: the smallest value that at least the
// share of all values does not exceed. They are null where there is no value.
type Quantiles struct {
	Count int64    `json:"count"`
	P50   *float64 `json:"p50"`
	P90   *float64 `json:"p90"`
	P99   *float64 `json:"p99"`
	Mean  *float64 `json:"mean"`
}

// quantiles are of the histogram with so many more zeros.
func (h Histogram) quantiles(zeros int64) Quantiles {
	var values, weights []float64
	var q Quantiles
	for v, n := range h {
		if v == 0 {
			n += zeros
		}
		if n > 0 {
			q.Count += n
			values, weights = append(values, float64(v)), append(weights, float64(n))
		}
	}
	if len(h) == 0 && zeros > 0 {
		q.Count, values, weights = zeros, []float64{0}, []float64{float64(zeros)}
	}
	if q.Count == 0 {
		return q
	}
	at := func(p float64) *float64 {
		v := stat.Quantile(p, stat.Empirical, values, weights)
		return &v
	}
	mean := stat.Mean(values, weights)
	q.P50, q.P90, q.P99, q.Mean = at(0.5), at(0.9), at(0.99), &mean
	return q
}

// fenwick counts blocks by the step of their last demand, with sums over ranges of
// steps in logarithmic time.
type fenwick struct {
	count []int32 // by step
	tree  []int32
}

func (f *fenwick) reset(n int) {
	f.count, f.tree = slices.Grow(f.count[:0], n)[:n], slices.Grow(f.tree[:0], n+1)[:n+1]
	clear(f.count)
	clear(f.tree)
}

func (f *fenwick) at(i int) int { return int(f.count[i]) }

func (f *fenwick) add(i, n int) {
	f.count[i] += int32(n)
	for i++; i < len(f.tree); i += i & -i {
		f.tree[i] += int32(n)
	}
}

// between is the sum over from ≤ i < to.
func (f *fenwick) between(from, to int) int { return f.below(to) - f.below(from) }

func (f *fenwick) below(i int) (sum int) {
	for ; i > 0; i -= i & -i {
		sum += int(f.tree[i])
	}
	return sum
}
