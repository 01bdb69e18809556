package board

import (
	"math"

	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Figure is a number of the board with its 95 % interval, if it has one.
type Figure struct {
	Value float64 `json:"value"`
	// Low and High bound the 95 % bootstrap interval over requests. Both are null if a trace has fewer
	// than five requests or rows are pooled over requests. They are also null if more than
	// mostUndefined of the resamples lack the figure. Only High is null if the interval has no upper
	// end: in some resamples the yardstick misses nothing.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`

	undefined bool // too many resamples lack the figure, so there is no interval
}

// Bounded reports whether the figure has an interval, with an upper end or without.
func (f *Figure) Bounded() bool { return f != nil && f.Low != nil }

// Unbounded reports whether the figure has an interval without an upper end.
func (f *Figure) Unbounded() bool { return f.Bounded() && f.High == nil }

// Figures describe one policy over some cells: an exact policy by its misses, a lossy one by the
// entries that it lost. A figure that cannot be computed is null.
type Figures struct {
	// Cells is the number of (trace, capacity) cells that the figures are over.
	Cells int `json:"cells"`
	*ExactFigures
	*LossyFigures
	// Demand (blocks) and Steps (stream-steps) are sums over the cells.
	Demand int64 `json:"demand"`
	Steps  int64 `json:"steps"`
}

// ExactFigures compare an exact policy with OPT and LRU.
type ExactFigures struct {
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
	// TPOT is the modelled time per output token in seconds, as a geometric mean over the cells. It is
	// null without a Timer, or if one of the cells has no time.
	TPOT *float64 `json:"tpot_s"`
	// Misses, OptMisses and LRUMisses are sums over the cells.
	Misses    int64  `json:"misses"`
	OptMisses *int64 `json:"opt_misses"`
	LRUMisses *int64 `json:"lru_misses"`
}

// LossyFigures describe the demand that a lossy policy kept (SEMANTICS S10).
type LossyFigures struct {
	// Recall is 1 − lost ÷ demand.
	Recall *Figure `json:"recall"`
	// MassKept is the share of the recorded attention mass that the policy kept. The traces' lists
	// record CoveredMass of all attention. The policy kept at least MassLeast and at most MassMost of
	// all attention. All are null if a trace records no masses.
	MassKept    *float64 `json:"mass_kept"`
	MassLeast   *float64 `json:"mass_least"`
	MassMost    *float64 `json:"mass_most"`
	CoveredMass *float64 `json:"covered_mass"`
	// ResidentMean is the mean number of blocks of a stream after a step.
	ResidentMean float64 `json:"resident_mean"`
	// Lost is the number of lost blocks.
	Lost int64 `json:"lost"`
}

// Number returns x rounded to nine digits, so that the bytes of a board do not depend on a
// machine's last bit. It returns nil for NaN and infinities.
func Number(x float64) *float64 { return rounded(x, 9) }

// rounded returns x with a number of significant digits, nil for NaN and infinities.
func rounded(x float64, digits int) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return new(text.Round(x, digits))
}

// meanRatio returns the geometric mean over cells of misses ÷ those of a yardstick. It is infinite if the
// yardstick alone has no miss in a cell. It is NaN if neither has one, or if the yardstick lacks a cell.
func meanRatio(misses, yardstick []*cell) float64 {
	logs := 0.0
	for i, c := range misses {
		if yardstick[i] == nil {
			return math.NaN()
		}
		logs += math.Log(float64(c.total.misses) / float64(yardstick[i].total.misses))
	}
	return math.Exp(logs / float64(len(misses)))
}

// gapClosed returns the share of the distance from LRU to OPT that a policy covers. It is negative if
// the policy misses more than LRU.
func gapClosed(misses, opt, lru float64) float64 {
	if lru == opt {
		return math.NaN()
	}
	return (lru - misses) / (lru - opt)
}

// hitRate is NaN without demand.
func hitRate(misses, demand float64) float64 { return (demand - misses) / demand }

func lostShare(lost, demand float64) float64 { return lost / math.Max(1, demand) }

// measure computes an exact policy's figures over the pool. It returns nil if the pool is empty, or
// if the policy has no row in one of its cells.
func (p *pool) measure(policy string) *Figures {
	own := p.series(policy)
	if !own.complete() {
		return nil
	}
	total, e := own.tally(), p.entry(own, p.opt, p.lru, p.demand)
	f := &ExactFigures{
		XOpt: e.ratio(p.opt), XLRU: e.ratio(p.lru), TPOT: p.grid.tpot(own.cells),
		Misses: total.misses, OptMisses: p.opt.misses(), LRUMisses: p.lru.misses(),
	}
	if f.OptMisses != nil && f.LRUMisses != nil {
		gap := gapClosed(float64(f.Misses), float64(*f.OptMisses), float64(*f.LRUMisses))
		f.GapClosed = e.figure(gap, func(b int) float64 { return gapClosed(own.sums[b], p.opt.sums[b], p.lru.sums[b]) })
	}
	rate := hitRate(float64(total.misses), float64(total.demand))
	f.HitRate = e.figure(rate, func(b int) float64 { return hitRate(own.sums[b], p.demand.sums[b]) })
	if total.bytesKnown {
		f.BytesPerStep = Number(text.Ratio(total.bytes, total.steps))
	}
	return &Figures{Cells: len(p.refs), ExactFigures: f, Demand: total.demand, Steps: total.steps}
}

// measureLossy is measure for a lossy policy.
func (p *pool) measureLossy(policy string) *Figures {
	own := p.series(policy)
	if !own.complete() {
		return nil
	}
	total := own.tally()
	f := &LossyFigures{Lost: total.lost, Recall: &Figure{Value: *Number(result.RecallOf(total.demand, total.lost))}}
	if steps := float64(total.steps); steps > 0 {
		f.ResidentMean = *Number(total.residentSum / steps)
		kept, covered := total.keptSum/steps, total.coveredSum/steps
		if total.coveredKnown {
			f.CoveredMass = Number(covered)
		}
		if total.massKnown {
			f.MassKept, f.MassLeast, f.MassMost = Number(kept/covered), Number(kept), Number(kept+1-covered)
		}
	}
	e := p.entry(own, p.demand)
	e.intervals = append(e.intervals, &bootstrap{
		value: func(b int) float64 { return lostShare(own.sums[b], p.demand.sums[b]) },
		set: func(low, high float64) {
			if low, high := Number(low), Number(high); low != nil && high != nil {
				f.Recall.Low, f.Recall.High = Number(1-*high), Number(1-*low)
			}
		},
	})
	return &Figures{Cells: len(p.refs), LossyFigures: f, Demand: total.demand, Steps: total.steps}
}
