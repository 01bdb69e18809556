package synthetic

import (
	"math"

	"github.com/kvreplay/kvreplay/trace"
)

// estimate is what a measure says of each dial.
type estimate struct {
	Locality
	runMedian float64
	soon      float64 // mean log odds of staying away longer than 1, 2, 4 and 8 steps
	unknown   float64 // share of the blocks entering at counted steps that were never demanded before
	strange   float64 // share of the blocks entering at counted steps that were not demanded for long, or never
}

// estimate estimates dials one by one. What too few values rest on is left at the
// value in from.
func (m *measure) estimate(from *Locality) estimate {
	e := estimate{Locality: *from, strange: ratio(m.strange, m.counted), unknown: ratio(m.unknown, m.counted)}
	e.Skipped = 1 - ratio(m.born, m.steps)
	e.Overlap = min(ratio(m.common, m.after), mostOverlap(&e.Locality, m.topK))
	e.Burst = 0
	for _, v := range m.bursts {
		e.Burst += v / float64(len(m.bursts))
	}
	if median, shape, ok := fitLogLogistic(m.runs.curve()); ok {
		e.runMedian, e.RunShape = median, shape
	}
	gaps := m.gaps.curve()
	if median, shape, ok := fitLogLogistic(gaps); ok {
		e.GapMedian, e.GapShape = median, shape
	}
	e.soon = soonOf(gaps)
	if heat, ok := heatOf(gaps, m.freshGaps.curve()); ok {
		e.Heat = heat
	}
	e.Company = max(0, m.company/float64(m.streams))
	e.Near = ratio(m.fromCandidates, m.entered)
	e.Neighbours = ratio(m.behind, m.fresh)
	return e
}

// soonOf is the mean log odds of a curve at 1, 2, 4 and 8.
func soonOf(curve []float64) float64 {
	sum, n := 0.0, 0.0
	for x := 1; x <= min(8, len(curve)); x *= 2 {
		s := max(0.01, min(0.99, curve[x-1]))
		sum += math.Log(s / (1 - s))
		n++
	}
	return sum / max(1, n)
}

// soonCentre is the mean log of 1, 2, 4 and 8: a law of median m and shape β has mean
// log odds β·(ln m − soonCentre) there.
const soonCentre = 1.5 * math.Ln2

// heatOf compares the gaps that follow a long one, of blocks seen for the first time,
// with all: if a block keeps its quantile with probability √heat, a share of heat
// stays away as long again, and the others as all do.
func heatOf(all, fresh []float64) (float64, bool) {
	sum, n := 0.0, 0.0
	for _, x := range []int{4, 8, 16} {
		if x <= min(len(all), len(fresh)) && all[x-1] < 1 {
			sum += (fresh[x-1] - all[x-1]) / (1 - all[x-1])
			n++
		}
	}
	return max(0, min(1, sum/max(1, n))), n > 0
}

// recentOf is the share of the demand that generated tokens hold in their first run,
// as far as there is room: a quarter, and what leaves other blocks runs of more than a
// step.
func (m *measure) recentOf(dials *Locality) float64 {
	k := float64(m.topK)
	room := max(0, min(0.25, 1-shortRun*((1-dials.Overlap)-bornOf(dials)/k)))
	var l law
	misfit := func(median float64) (sum float64) {
		for i, s := range m.recent.curve() {
			sum += 1/(1+math.Pow(float64(i+1)/median, recentShape)) - s
		}
		return sum
	}
	lo, hi := 1e-3, 1e4
	for range 40 {
		if mid := math.Sqrt(lo * hi); misfit(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	l.set(lo, recentShape, longestRun)
	return min(room, bornOf(dials)*l.meanSteps()/k)
}

// shortRun is the mean run that recent tokens leave room for.
const shortRun = 1.3

// hotOf is the share of the demand that is left when runs of that median and recent
// tokens are taken out of it.
func hotOf(l *Locality, k, runMedian float64) float64 {
	var runs law
	runs.set(max(runMedian, 1e-3), l.RunShape, longestRun)
	return max(0, 1-(recentDemand(l, k)+(churnOf(l, k)-bornOf(l))*runs.meanSteps())/k)
}

const (
	rounds     = 8       // of corrections
	twinTarget = 1 << 21 // indices of the twins of a layer in a round

	mostCompany = 0.02 // fitted: more makes short traces a matter of luck
)

// calibrate returns the dials of a layer.
func calibrate(d *Dials, m *measure) Locality {
	standard := Default()
	target := m.estimate(&standard.Locality)
	target.Recent = m.recentOf(&target.Locality)
	target.Hot = hotOf(&target.Locality, float64(d.TopK), target.runMedian)
	l := target.Locality
	l.Company = 0
	twin := *d
	twin.Layers, twin.LayerIDs, twin.ByLayer, twin.Heads, twin.Scores = 1, nil, nil, 0, 0
	twin.Requests = max(1, min(6, twinTarget/((d.Windows+d.Steps)*d.Candidates)))
	for round := range rounds {
		l.limit(d.TopK)
		twin.Locality, twin.Seed = l, uint64(round)
		got := measureTwin(&twin).estimate(&target.Locality)
		l.correct(&target, &got, min(0.7, 2/float64(round+1)))
		if round == 0 { // the rest is due to bursts
			l.Company = max(0, min(mostCompany, target.Company-got.Company))
		}
	}
	l.limit(d.TopK)
	return l
}

func measureTwin(twin *Dials) *measure {
	m := &measure{topK: twin.TopK, local: twin.Local}
	source := NewSource(twin)
	var s trace.Stream
	for i := range source.Streams() {
		source.Stream(i, &s)
		m.stream(&s)
	}
	return m
}

// correct moves each dial by a part, gain, of what its estimate lacks to the target.
func (l *Locality) correct(target, got *estimate, gain float64) {
	factor := func(dial *float64, want, is float64) {
		if want > 0 && is > 0 {
			*dial *= math.Exp(gain * max(-1, min(1, math.Log(want/is))))
		}
	}
	churn := 1 - l.Overlap
	factor(&churn, 1-target.Overlap, 1-got.Overlap)
	l.Overlap = 1 - churn
	factor(&l.Burst, target.Burst, got.Burst)
	factor(&l.RunShape, target.RunShape, got.RunShape)
	// The law of gaps is given by its odds at short times and at a long one.
	soon := l.GapShape*(math.Log(l.GapMedian)-soonCentre) + gain*(target.soon-got.soon)
	slope := strangeSlope(l.GapShape, soon)
	factor(&l.GapShape, math.Pow(got.strange, 1/slope), math.Pow(target.strange, 1/slope))
	l.GapMedian = medianOf(l.GapShape, soon)
	l.Drift += gain * (target.unknown - got.unknown)
	factor(&l.Near, target.Near, got.Near)
	factor(&l.Neighbours, target.Neighbours, got.Neighbours)
	l.Heat += gain * (target.Heat - got.Heat)
}

// medianOf is the median of a law of gaps with that shape and those odds at short times.
func medianOf(shape, soon float64) float64 { return math.Exp(soonCentre + soon/shape) }

// strangeSlope is by how many per cent the gaps longer than longTime become fewer when
// their shape grows by one per cent and the odds at short times stay.
func strangeSlope(shape, soon float64) float64 {
	longer := func(shape float64) float64 { return 1 / (1 + math.Pow(longTime/medianOf(shape, soon), shape)) }
	const step = 0.01
	return max(0.25, math.Log(longer(shape)/longer(shape*(1+step)))/math.Log1p(step))
}

// slack is the share of the demand that keeps rounded dials free of contradiction.
const slack = 1e-3

// limit keeps dials in their ranges and free of contradiction.
func (l *Locality) limit(k int) {
	l.Overlap = min(l.Overlap, mostOverlap(l, k))
	for i := range LocalityDials {
		d := &LocalityDials[i]
		v := d.At(l)
		*v = max(d.Least, min(d.Most, *v))
	}
	most := 1 - slack - (churnOf(l, float64(k))-bornOf(l)+recentDemand(l, float64(k)))/float64(k)
	if l.Hot = min(l.Hot, most); l.Hot < 0 {
		l.Hot = 0
		l.Overlap = min(l.Overlap-most, mostOverlap(l, k))
	}
}
