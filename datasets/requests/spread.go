package requests

import (
	"maps"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Spread is a distribution. A quantile is the smallest value that at least the share of
// all values does not exceed. All are null where there is no value.
type Spread struct {
	Min  *float64 `json:"min"`
	Mean *float64 `json:"mean"`
	P50  *float64 `json:"p50"`
	P90  *float64 `json:"p90"`
	P99  *float64 `json:"p99"`
	Max  *float64 `json:"max"`
}

// spread is the distribution of values, which it sorts; weights, where there are any,
// belong to ascending values.
func spread(values, weights []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	if weights == nil {
		slices.Sort(values)
	}
	at := func(p float64) *float64 {
		v := stat.Quantile(p, stat.Empirical, values, weights)
		return &v
	}
	least, mean, most := values[0], stat.Mean(values, weights), values[len(values)-1]
	return Spread{Min: &least, Mean: &mean, P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: &most}
}

// times is the distribution in another unit.
func (s Spread) times(factor float64) Spread {
	for _, v := range []*float64{s.Min, s.Mean, s.P50, s.P90, s.P99, s.Max} {
		if v != nil {
			*v *= factor
		}
	}
	return s
}

// variation is the standard deviation over the mean, null where either has no meaning.
func variation(values []float64) *float64 {
	if len(values) < 2 {
		return nil
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	if mean == 0 {
		return nil
	}
	v := deviation / mean
	return &v
}

// zeroShare is the share of values that are 0.
func zeroShare(values []float64) *float64 {
	zeros := 0
	for _, v := range values {
		if v == 0 {
			zeros++
		}
	}
	return share(int64(zeros), int64(len(values)))
}

// share is part ÷ whole, null where the whole is 0.
func share(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	v := float64(part) / float64(whole)
	return &v
}

// tally counts values.
type tally map[int64]int64

func (t *tally) add(value int64) {
	if *t == nil {
		*t = tally{}
	}
	(*t)[value]++
}

// spread is the distribution of what was counted.
func (t tally) spread() Spread {
	var values, weights []float64
	for _, v := range slices.Sorted(maps.Keys(t)) {
		values, weights = append(values, float64(v)), append(weights, float64(t[v]))
	}
	return spread(values, weights)
}
