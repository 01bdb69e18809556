package synthetic

import "math"

// quantiles is the resolution of laws: a law is a table of its quantiles at
// (i + ½)/quantiles.
const quantiles = 1 << 12

// law is a log-logistic distribution of times in steps: P(X > x) = 1/(1 + (x/m)^β),
// cut at most.
type law struct {
	shape, median, most float64
	unit                [quantiles]float32 // quantiles for a median of 1, ascending
	ticks               [quantiles]int32   // quantiles in ticks, once settled
}

// set makes l the law of that shape β and median m.
func (l *law) set(median, shape, most float64) {
	if shape != l.shape {
		for i := range l.unit {
			u := (float64(i) + 0.5) / quantiles
			l.unit[i] = float32(math.Pow(u/(1-u), 1/shape))
		}
	}
	l.median, l.shape, l.most = median, shape, most
}

// at is the quantile (i + ½)/quantiles.
func (l *law) at(i uint16) float64 {
	return min(l.most, l.median*float64(l.unit[i]))
}

// settle fills in the quantiles in ticks, least at least; those of the far future are as
// good as any.
func (l *law) settle(least float64) {
	for i := range l.ticks {
		l.ticks[i] = int32(min(math.MaxInt32/2, max(least, math.Round(l.at(uint16(i))*ticks))))
	}
}

// below is the number of quantiles under x: quantiles × P(X < x).
func (l *law) below(x float64) int {
	if x > l.most {
		return quantiles
	}
	lo, hi := 0, quantiles
	for lo < hi {
		if mid := (lo + hi) / 2; l.median*float64(l.unit[mid]) < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// meanSteps is the mean of ⌈X⌉, the whole steps that a time X takes, 1 at least, of a law
// that is cut. The table ascends: only between the quantiles of one step and those that are
// cut steps are counted one by one. All sums are of whole numbers and exact.
func (l *law) meanSteps() float64 {
	cut := l.below(l.most)
	short := min(l.below(1), cut)
	sum := short + (quantiles-cut)*int(math.Ceil(l.most))
	for _, u := range l.unit[short:cut] {
		x := l.median * float64(u)
		n := int(x)
		if float64(n) < x {
			n++
		}
		sum += n
	}
	return float64(sum) / quantiles
}

// setMean finds the median for which meanSteps is mean.
func (l *law) setMean(mean, shape, most float64) {
	lo, hi := 1e-4, most
	for range 40 {
		l.set(math.Sqrt(lo*hi), shape, most)
		if l.meanSteps() < mean {
			lo = l.median
		} else {
			hi = l.median
		}
	}
}

// lengths is the law of the quantile of the interval that a random moment falls into:
// intervals weigh by their length.
type lengths [quantiles]uint16

func (w *lengths) of(l *law) {
	total := 0.0
	for i := range l.unit {
		total += l.at(uint16(i))
	}
	sum, j := 0.0, 0
	for i := range l.unit {
		sum += l.at(uint16(i))
		for ; j < quantiles && (float64(j)+0.5)/quantiles*total <= sum; j++ {
			w[j] = uint16(i)
		}
	}
	for ; j < quantiles; j++ {
		w[j] = quantiles - 1
	}
}
