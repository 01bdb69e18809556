package metrics

// measured is a policy's figures over some cells, with the resamples of × OPT for
// comparing it to its neighbour.
type measured struct {
	figures *Figures
	series  []float64
}

// measure computes a policy's figures over the cells; without cells, or where the
// policy has no row in one of them, there are none.
func (g *grid) measure(policy string, refs []CellRef) measured {
	points := g.points(policy, refs)
	if len(points) == 0 {
		return measured{}
	}
	resamples := g.resampledPoints(policy, refs)
	f := &Figures{Cells: len(refs)}
	var series []float64
	f.XOpt, series = estimate(timesOpt, points, resamples)
	f.XLRU, _ = estimate(timesLRU, points, resamples)
	f.GapClosed, _ = estimate(gapClosed, points, resamples)
	f.HitRate, _ = estimate(hitRate, points, resamples)
	g.addSums(f, policy, refs)
	return measured{f, series}
}

// estimate computes a statistic and, from the resamples, its interval. NaN in the
// points, a yardstick without rows, makes it nil.
func estimate(statistic func([]point) float64, points []point, resamples [][]point) (*Figure, []float64) {
	value := number(statistic(points))
	if value == nil {
		return nil, nil
	}
	f := &Figure{Value: *value}
	if resamples == nil {
		return f, nil
	}
	series := make([]float64, len(resamples))
	for b, r := range resamples {
		series[b] = statistic(r)
	}
	f.Low, f.High = interval(series)
	return f, series
}

func (g *grid) addSums(f *Figures, policy string, refs []CellRef) {
	total := sum(g.tallies(policy, refs))
	f.Misses, f.Demand, f.Steps = total.misses, total.demand, total.steps
	f.OptMisses = g.missesOf(optPolicy, refs)
	f.LRUMisses = g.missesOf(lruPolicy, refs)
	f.TPOT = g.tpot(policy, refs)
	if total.bytes != nil {
		f.BytesPerStep = number(ratio(*total.bytes, total.steps))
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
