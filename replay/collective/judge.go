package collective

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Errors summarise the errors of all-reduces that a fit left out, and of exchanges, which no fit
// has: predicted ÷ measured − 1.
type Errors struct {
	Split  string  `json:"split"`    // device, workers, sizes or exchange
	Left   string  `json:"left_out"` // the device, with its number of workers, or the operation
	Range  string  `json:"sizes"`    // below 1 MiB, from 1 MiB, or the numbers of GPUs
	Count  int     `json:"points"`
	Bias   float64 `json:"median_error"`
	Median float64 `json:"median_abs_error"`
	P95    float64 `json:"p95_abs_error"`
	Worst  float64 `json:"worst_abs_error"`
}

const (
	folds = 5       // parts of a device's sizes
	large = 1 << 20 // from here on the bytes decide, below it the calls
)

// Judge fits without a part and returns the errors on it. Parts are a device, a number of workers of
// a device, and a fifth of a device's sizes. It adds the errors on published exchanges.
func Judge(lib *hardware.Library) ([]Errors, error) {
	points, err := published(lib)
	if err != nil {
		return nil, err
	}
	var byDevice, byWorkers, bySize []Errors
	for _, key := range slice.Distinct(points, func(p *point) series { return series{p.Device, p.Method} }) {
		mine, others := slice.Partition(points, func(p *point) bool { return series{p.Device, p.Method} == key })
		others = of(others, key.method)
		byDevice = append(byDevice, summaries("device", key.String(), mine, guesses(mine, others, nil))...)
		for _, workers := range slice.Distinct(mine, func(p *point) int { return p.Workers }) {
			out, in := slice.Partition(mine, func(p *point) bool { return p.Workers == workers })
			if len(in) == 0 {
				continue
			}
			left := fmt.Sprintf("%s, %d", key, workers)
			byWorkers = append(byWorkers, summaries("workers", left, out, guesses(out, others, in))...)
		}
		var left []point
		var guessed []float64
		for fold := range folds {
			out, in := slice.Partition(mine, func(p *point) bool { return (p.Line+p.Workers)%folds == fold })
			left, guessed = append(left, out...), append(guessed, guesses(out, others, in)...)
		}
		bySize = append(bySize, summaries("sizes", key.String(), left, guessed)...)
	}
	exchanges, err := judgeExchanges()
	return slices.Concat(byDevice, byWorkers, bySize, exchanges), err
}

// series are the all-reduces of a device by a method.
type series struct {
	device string
	method Method
}

func (s series) String() string { return s.device + ", " + s.method.String() }

// guesses predicts points of one series by a fit to others of the method and to near, measurements
// of the same series.
func guesses(points, others, near []point) (all []float64) {
	f := newFit(slices.Concat(others, near), points[0].link)
	f.near = near
	for i := range points {
		p := &points[i]
		all = append(all, f.allReduce(p.Method, p.link, p.Workers, float64(p.Bytes)))
	}
	return all
}

// summaries returns the errors of small and of large buffers.
func summaries(split, left string, points []point, guessed []float64) (list []Errors) {
	for _, r := range []struct {
		name        string
		least, most int
	}{{"below 1 MiB", 0, large}, {"from 1 MiB", large, math.MaxInt}} {
		var errors []float64
		for i := range points {
			if b := points[i].Bytes; b >= r.least && b < r.most {
				errors = append(errors, guessed[i]/points[i].seconds-1)
			}
		}
		if len(errors) > 0 {
			list = append(list, summary(split, left, r.name, errors))
		}
	}
	return list
}

// summary returns the errors of a part.
func summary(split, left, sizes string, errors []float64) Errors {
	slices.Sort(errors)
	size := slice.Map(errors, math.Abs)
	slices.Sort(size)
	return Errors{split, left, sizes, len(size), slice.Quantile(errors, 0.5), slice.Quantile(size, 0.5),
		slice.Quantile(size, 0.95), size[len(size)-1]}
}

// ErrorTable is a table of errors in percent.
func ErrorTable(all []Errors) *table.Table {
	t := table.New("left out", "of", "buffers", "points", "median error %", "median |error| %", "p95 %",
		"worst %").RightFrom(3)
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) }
	for i, e := range all {
		if i > 0 && e.Split != all[i-1].Split {
			t.Line()
		}
		t.Add(e.Split, e.Left, e.Range, e.Count, fmt.Sprintf("%+.0f", 100*e.Bias), percent(e.Median), percent(e.P95),
			percent(e.Worst))
	}
	return t
}

// ErrorShares is a table of errors as shares, for CSV.
func ErrorShares(all []Errors) *table.Table {
	t := table.New("split", "left_out", "sizes", "points", "median_error", "median_abs_error", "p95_abs_error",
		"worst_abs_error")
	share := func(v float64) string { return strconv.FormatFloat(v, 'f', 5, 64) }
	for _, e := range all {
		t.Add(e.Split, e.Left, e.Range, e.Count, share(e.Bias), share(e.Median), share(e.P95), share(e.Worst))
	}
	return t
}
