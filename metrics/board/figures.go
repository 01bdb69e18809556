package board

import (
	"math"
	"slices"

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

// meanRatio returns the geometric mean over cells of misses ÷ those of a yardstick, in resample b. It is
// infinite if the yardstick alone has no miss in a cell, and NaN if neither has one.
func meanRatio(cells []cellSamples, yardstick yardstick, b int) float64 {
	logs := 0.0
	for i := range cells {
		logs += math.Log(cells[i].misses[b] / yardstick(&cells[i])[b])
	}
	return math.Exp(logs / float64(len(cells)))
}

// gapsClosed returns the share of the distance from LRU to OPT that a policy covers, by summed
// misses. It is negative if the policy misses more than LRU.
func gapsClosed(cells []cellSamples) []float64 {
	gaps := sumsOver(cells, func(c *cellSamples) []float64 { return c.misses })
	opt, lru := sumsOver(cells, ofOpt), sumsOver(cells, ofLRU)
	for b, misses := range gaps {
		gaps[b] = (lru[b] - misses) / (lru[b] - opt[b])
		if lru[b] == opt[b] {
			gaps[b] = math.NaN()
		}
	}
	return gaps
}

func hitRates(cells []cellSamples) []float64 {
	rates := sumsOver(cells, func(c *cellSamples) []float64 { return c.misses })
	for b, demand := range sumsOver(cells, func(c *cellSamples) []float64 { return c.demand }) {
		rates[b] = (demand - rates[b]) / demand // NaN without demand
	}
	return rates
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

// estimate returns a figure of the cells with its interval, whose ends are values of resamples. There is
// no interval without resamples. It returns nil if the value is NaN: a yardstick has no rows, or no miss.
func estimate(value float64, resamples []cellSamples, ends func() (low, high float64)) *Figure {
	rounded := Number(value)
	if rounded == nil {
		return nil
	}
	f := &Figure{Value: *rounded}
	if len(resamples) > 0 {
		low, high := ends()
		f.Low, f.High = Number(low), Number(high)
		f.undefined = f.Low == nil
	}
	return f
}

// estimateRatio returns the meanRatio of cells. Its resamples are ordered by values that take fewer
// logarithms.
func estimateRatio(cells, resamples []cellSamples, yardstick yardstick, tail float64) *Figure {
	return estimate(meanRatio(cells, yardstick, 0), resamples, func() (low, high float64) {
		order := ratioOrder(resamples, yardstick)
		low, high = bounds(order, tail)
		if math.IsNaN(low) {
			return low, high
		}
		return meanRatio(resamples, yardstick, slices.Index(order, low)), meanRatio(resamples, yardstick, slices.Index(order, high))
	})
}

// measure computes an exact policy's figures over the cells. It returns nil if there are no cells,
// or if the policy has no row in one of them.
func (g *grid) measure(policy string, refs []CellRef) *Figures {
	cells := g.counted(policy, refs)
	if len(cells) == 0 {
		return nil
	}
	tail, total, resamples := g.tail(refs), sum(g.tallies(policy, refs)), g.resampledCells(policy, refs)
	figure := func(of func([]cellSamples) []float64) *Figure {
		return estimate(of(cells)[0], resamples, func() (low, high float64) { return bounds(of(resamples), tail) })
	}
	f := &ExactFigures{
		XOpt:      estimateRatio(cells, resamples, ofOpt, tail),
		XLRU:      estimateRatio(cells, resamples, ofLRU, tail),
		GapClosed: figure(gapsClosed),
		HitRate:   figure(hitRates),
		TPOT:      g.tpot(policy, refs),
		Misses:    total.misses, OptMisses: g.missesOf(OptPolicy, refs), LRUMisses: g.missesOf(LRUPolicy, refs),
	}
	if total.bytes != nil {
		f.BytesPerStep = Number(text.Ratio(*total.bytes, total.steps))
	}
	return &Figures{Cells: len(refs), ExactFigures: f, Demand: total.demand, Steps: total.steps}
}

// measureLossy is measure for a lossy policy.
func (g *grid) measureLossy(policy string, refs []CellRef) *Figures {
	tallies := g.tallies(policy, refs)
	if len(tallies) == 0 {
		return nil
	}
	total := sum(tallies)
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
	if series := g.lostShares(policy, refs); series != nil {
		if low, high := interval(series, g.tail(refs)); low != nil && high != nil {
			f.Recall.Low, f.Recall.High = Number(1-*high), Number(1-*low)
		}
	}
	return &Figures{Cells: len(refs), LossyFigures: f, Demand: total.demand, Steps: total.steps}
}

// lostShares returns the resamples of lost ÷ demand, nil if a trace has too few requests.
func (g *grid) lostShares(policy string, refs []CellRef) []float64 {
	var lost, demand []float64
	for _, r := range refs {
		c, d := g.at(r, policy), g.draws[r.Trace]
		if d == nil || c.requests == nil {
			return nil
		}
		if lost == nil {
			lost, demand = make([]float64, d.resamples), make([]float64, d.resamples)
		}
		for b, n := range g.sampled[c] {
			lost[b], demand[b] = lost[b]+n, demand[b]+g.demand[r.Trace][b]
		}
	}
	for b := range lost {
		lost[b] /= math.Max(1, demand[b])
	}
	return lost
}

// tallies returns a policy's counts, nil if a cell is missing.
func (g *grid) tallies(policy string, refs []CellRef) []tally {
	tallies := make([]tally, len(refs))
	for i, r := range refs {
		c := g.at(r, policy)
		if c == nil {
			return nil
		}
		tallies[i] = c.total
	}
	return tallies
}

func (g *grid) missesOf(policy string, refs []CellRef) *int64 {
	tallies := g.tallies(policy, refs)
	if tallies == nil {
		return nil
	}
	return new(sum(tallies).misses)
}
