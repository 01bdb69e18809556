package nearlrfu

import "github.com/kvreplay/kvreplay/policies"

// lifts are the factors that raise the rates of a step's candidates.
type lifts struct {
	factor []float64 // e^(w·near) of each candidate, best first
	w      float64
}

// set prepares the factors of m candidates at weight w. It does nothing if m is the same as at the
// step before.
func (l *lifts) set(w float64, m int) {
	if len(l.factor) == m && l.w == w {
		return
	}
	l.factor, l.w = policies.Fill(l.factor, m, 1), w
	base := exp(w / float64(m+1))
	power := 1.0
	for i := m - 1; i >= 0; i-- {
		power *= base
		l.factor[i] = power
	}
}

// exp returns e^x for x from 0 to 20, to a few units of the last place. It sums the series, whose
// terms are all positive. No product meets a sum, so no machine can fuse them. math.Exp differs by
// machine in the last place.
func exp(x float64) float64 {
	sum, term := 0.0, 1.0
	for n := 1.0; sum+term != sum; n++ {
		sum += term
		term = term * x / n
	}
	return sum
}
