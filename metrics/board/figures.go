package board

import (
	"math"
	"strconv"

	"gonum.org/v1/gonum/stat"
)

// Figure is a number of the board with its 95 % interval where there is one.
type Figure struct {
	Value float64 `json:"value"`
	// Low and High bound the 95 % bootstrap interval over requests; null where a trace
	// has fewer than five, or rows are pooled over requests, and where more than
	// mostUndefined of the resamples have no such figure. High alone is null where the
	// interval has no upper end: resamples in which the yardstick misses nothing.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`

	undefined bool // why there is no interval: resamples have no such figure
}

// Unbounded is true for an interval without an upper end.
func (f *Figure) Unbounded() bool { return f.Bounded() && f.High == nil }

// lost is true where resamples have no such figure, so that there is no interval.
func (f *Figure) lost() bool { return f != nil && f.undefined }

// Figures compare one policy over some cells. A figure that cannot be computed is
// null.
type Figures struct {
	// Cells is the number of (trace, capacity) cells that the figures are over.
	Cells int `json:"cells"`
	// XOpt is misses ÷ OPT's in each cell, geometric mean over cells (SEMANTICS S9).
	XOpt *Figure `json:"x_opt"`
	// XLRU is misses ÷ LRU's in each cell, geometric mean over cells.
	XLRU *Figure `json:"x_lru"`
	// GapClosed is (LRU − P) ÷ (LRU − OPT) of misses summed over the cells (SEMANTICS S9).
	GapClosed *Figure `json:"gap_closed"`
	// HitRate is hits ÷ demand, both summed over the cells (SEMANTICS S7).
	HitRate *Figure `json:"hit_rate"`
	// BytesPerStep is host-to-device bytes ÷ stream-steps, both summed over the cells.
	BytesPerStep *float64 `json:"bytes_per_step"`
	// TPOT is the modelled time per output token in seconds, geometric mean over the cells;
	// null without a Timer, or where one of the cells has no time.
	TPOT *float64 `json:"tpot_s"`
	// Misses, OptMisses, LRUMisses, Demand (blocks) and Steps (stream-steps) are the sums.
	Misses    int64  `json:"misses"`
	OptMisses *int64 `json:"opt_misses"`
	LRUMisses *int64 `json:"lru_misses"`
	Demand    int64  `json:"demand"`
	Steps     int64  `json:"steps"`
}

// point is what figures are made of: the counts of one cell, of all its requests or
// of a resample. NaN where there is no such row.
type point struct{ misses, opt, lru, demand float64 }

// timesOpt is the geometric mean over cells of misses ÷ OPT's: infinite where OPT alone has
// no miss, not defined where neither has one in some cell.
func timesOpt(points []point) float64 {
	return meanRatio(points, func(p point) float64 { return p.opt })
}

// timesLRU is timesOpt with LRU as the yardstick.
func timesLRU(points []point) float64 {
	return meanRatio(points, func(p point) float64 { return p.lru })
}

func meanRatio(points []point, yardstick func(point) float64) float64 {
	ratios := make([]float64, len(points))
	for i, p := range points {
		ratios[i] = p.misses / yardstick(p)
	}
	return stat.GeometricMean(ratios, nil)
}

// gapClosed is the share of the distance from LRU to OPT that a policy covers, of
// summed misses; below 0 where it misses more than LRU.
func gapClosed(points []point) float64 {
	var p, opt, lru float64
	for _, q := range points {
		p, opt, lru = p+q.misses, opt+q.opt, lru+q.lru
	}
	if lru == opt {
		return math.NaN()
	}
	return (lru - p) / (lru - opt)
}

func hitRate(points []point) float64 {
	var misses, demand float64
	for _, p := range points {
		misses, demand = misses+p.misses, demand+p.demand
	}
	if demand == 0 {
		return math.NaN()
	}
	return (demand - misses) / demand
}

// Number is x rounded to nine digits, so that the bytes of a board do not depend on a
// machine's last bit; nil for NaN and infinities.
func Number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 9, 64), 64)
	if err != nil {
		panic(err) // what FormatFloat writes, ParseFloat reads
	}
	return &y
}

// Ratio is a ÷ b, NaN for b = 0.
func Ratio(a, b int64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
