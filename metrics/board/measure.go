package board

// measure computes a policy's figures over the cells; without cells, or where the
// policy has no row in one of them, there are none.
func (g *grid) measure(policy string, refs []CellRef) *Figures {
	points := g.points(policy, refs)
	if len(points) == 0 {
		return nil
	}
	resamples, tail := g.resampledPoints(policy, refs), g.tail(refs)
	f := &Figures{Cells: len(refs)}
	f.XOpt = estimate(timesOpt, points, resamples, tail)
	f.XLRU = estimate(timesLRU, points, resamples, tail)
	f.GapClosed = estimate(gapClosed, points, resamples, tail)
	f.HitRate = estimate(hitRate, points, resamples, tail)
	g.addSums(f, policy, refs)
	return f
}

// estimate computes a statistic and, from the resamples, its interval, without a tail
// at either end. It is nil where it is not a number: a yardstick has no rows, or no miss.
func estimate(statistic func([]point) float64, points []point, resamples [][]point, tail float64) *Figure {
	value := Number(statistic(points))
	if value == nil {
		return nil
	}
	f := &Figure{Value: *value}
	if resamples != nil {
		f.Low, f.High = interval(seriesOf(statistic, resamples), tail)
		f.undefined = f.Low == nil
	}
	return f
}

// seriesOf computes a statistic of every resample; nil without any.
func seriesOf(statistic func([]point) float64, resamples [][]point) []float64 {
	if resamples == nil {
		return nil
	}
	series := make([]float64, len(resamples))
	for b, r := range resamples {
		series[b] = statistic(r)
	}
	return series
}

func (g *grid) addSums(f *Figures, policy string, refs []CellRef) {
	total := sum(g.tallies(policy, refs))
	f.Misses, f.Demand, f.Steps = total.misses, total.demand, total.steps
	f.OptMisses = g.missesOf(OptPolicy, refs)
	f.LRUMisses = g.missesOf(LRUPolicy, refs)
	f.TPOT = g.tpot(policy, refs)
	if total.bytes != nil {
		f.BytesPerStep = Number(Ratio(*total.bytes, total.steps))
	}
}

// tallies collects a policy's counts; nil where a cell is missing.
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
	n := sum(tallies).misses
	return &n
}
