package synthetic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// FitOptions configure the fitting of dials.
type FitOptions struct {
	Workers int // layers or heads fitted at once, 0 for one per CPU. No effect on the dials
}

// Fit estimates the dials of the trace of f, layer by layer, and head by head if heads select.
// First it estimates each dial by itself. Then it draws twins, estimates their dials in the same
// way, and corrects the dials by the difference. It does so several times. One stream per worker is
// in memory.
func Fit(ctx context.Context, f *trace.File, o FitOptions) (*Dials, error) {
	d, err := fit(ctx, f, o)
	if err != nil {
		return nil, fmt.Errorf("fit %s: %w", f.Path(), err)
	}
	return d, nil
}

func fit(ctx context.Context, f *trace.File, o FitOptions) (*Dials, error) {
	d, err := extentOf(f)
	if err != nil {
		return nil, err
	}
	if err := d.setPins(f); err != nil {
		return nil, err
	}
	digest, err := f.Digest()
	if err != nil {
		return nil, err
	}
	measures, scores, err := measureLayers(ctx, f, d)
	if err != nil {
		return nil, err
	}
	if err := f.Unchanged(digest); err != nil {
		return nil, err
	}
	d.Scores = scores
	fitted := make([]Locality, len(measures))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(max(0, o.Workers), runtime.GOMAXPROCS(0)))
	for i := range fitted {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			fitted[i] = calibrate(d, measures[i])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	d.setByLayer(fitted)
	return d, d.Validate()
}

// extentOf returns the extent of a trace. If streams differ, it is that of the middle one.
func extentOf(f *trace.File) (*Dials, error) {
	m := f.Meta()
	if m.BlockTokens != 1 {
		return nil, fmt.Errorf("block_tokens is %d, expected a trace of single tokens", m.BlockTokens)
	}
	layers, requests := map[int32]bool{}, map[string]bool{}
	var prompts, steps, windows []int
	for _, s := range f.Streams() {
		layers[s.Layer], requests[s.Request] = true, true
		prompts, steps, windows = append(prompts, int(s.PromptLen)), append(steps, s.Rows-s.Windows), append(windows, s.Windows)
	}
	d := Default()
	d.Requests, d.Layers, d.Heads = len(requests), len(layers), len(headsOf(f))
	d.Context, d.Steps, d.Windows = middle(prompts), middle(steps), middle(windows)
	d.TopK, d.Candidates, d.Order, d.EntryBytes = m.TopK, m.Candidates, m.Order, m.EntryBytes
	if ids := slices.Sorted(maps.Keys(layers)); int(ids[len(ids)-1]) != len(ids)-1 {
		d.LayerIDs = ids
	}
	d.Locality = Locality{RunShape: 1, GapMedian: 1, GapShape: 1}
	d.About = fmt.Sprintf("fitted by kvreplay to a trace of %s (K = %d, M = %d, %d layers)",
		cmp.Or(m.Model, "an unnamed model"), m.TopK, m.Candidates, d.Layers)
	if d.Steps < fewestSteps {
		return nil, fmt.Errorf("streams of %d steps, expected at least %d to measure returns", d.Steps, fewestSteps)
	}
	return &d, d.Validate()
}

// setPins copies the sink and the local window of a trace if its lists leave the pinned tokens out.
// The first stream decides.
func (d *Dials) setPins(f *trace.File) error {
	sink, local, stated := f.Meta().Pins()
	if !stated {
		return nil
	}
	reader := f.NewReader(0)
	defer reader.Close()
	var s trace.Stream
	if err := reader.Read(0, &s); err != nil {
		return err
	}
	for t := range s.Rows {
		for _, x := range s.List(t) {
			if int(x) < sink || int(x) >= s.SeqLen(t)-local {
				return nil
			}
		}
	}
	if d.Sink, d.Local = sink, local; d.Candidates > d.listed() {
		d.Candidates = max(d.TopK, d.listed())
	}
	return d.Validate()
}

// fewestSteps is the least length of a stream that can be fitted.
const fewestSteps = 8

func middle(values []int) int {
	slices.Sort(values)
	return values[len(values)/2]
}

// measureLayers measures all streams, those of a layer and head together, and the scores.
func measureLayers(ctx context.Context, f *trace.File, d *Dials) ([]*measure, float64, error) {
	measures := make([]*measure, d.Layers*max(1, d.Heads))
	for i := range measures {
		measures[i] = &measure{topK: d.TopK, local: d.Local}
	}
	heads := headsOf(f)
	var columns trace.Columns
	if f.HasScores() {
		columns = trace.ReadScores
	}
	reader := f.NewReader(columns)
	defer reader.Close()
	var s trace.Stream
	var power powerFit
	var scratch []state
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if err := reader.Read(i, &s); err != nil {
			return nil, 0, err
		}
		at := int(s.Layer)
		if d.LayerIDs != nil {
			at, _ = slices.BinarySearch(d.LayerIDs, s.Layer)
		}
		head, _ := slices.BinarySearch(heads, s.Head)
		m := measures[at*max(1, d.Heads)+head]
		m.state, scratch = scratch, nil // one for all layers, because contexts are long
		m.stream(&s)
		m.state, scratch = nil, m.state
		power.stream(&s)
	}
	for layer := range slices.Chunk(measures, max(1, d.Heads)) {
		seen := slices.IndexFunc(layer, func(m *measure) bool { return m.streams > 0 })
		for head, m := range layer {
			if m.streams == 0 {
				layer[head] = layer[seen] // it has fewer heads than others
			}
		}
	}
	return measures, power.exponent(), nil
}

// headsOf returns the numbers of the heads, ascending, or none if layers share a selection.
func headsOf(f *trace.File) []int32 {
	heads := slice.Distinct(f.Streams(), func(s *trace.StreamInfo) int32 { return s.Head })
	slices.Sort(heads)
	return slices.DeleteFunc(heads, func(head int32) bool { return head == trace.NoHead })
}

// setByLayer sets the dials of each layer, or of each of its heads, and sets the common dials to
// their means.
func (d *Dials) setByLayer(fitted []Locality) {
	d.ByLayer = map[string]Values{}
	for i := range fitted {
		fitted[i].round(d.TopK)
	}
	for _, dial := range LocalityDials {
		values, mean := make(Values, len(fitted)), 0.0
		for i := range fitted {
			values[i] = *dial.At(&fitted[i])
			mean += values[i] / float64(len(fitted))
		}
		*dial.At(&d.Locality) = mean
		d.ByLayer[dial.Name] = values
	}
	d.round(d.TopK)
	if len(fitted) == 1 {
		d.ByLayer = nil
	}
}

// round rounds the dials and keeps the overlap within its limit.
func (l *Locality) round(k int) {
	for _, dial := range LocalityDials {
		v := dial.At(l)
		*v = round(*v)
	}
	l.Overlap = min(l.Overlap, mostOverlap(l, k))
}

// round keeps four significant digits, because people read dial files.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	r := math.Round(v / unit)
	if unit < 1 {
		return r / math.Round(1/unit)
	}
	return r * unit
}

// powerFit fits a power law of the rank to scores.
type powerFit struct{ n, x, y, xx, xy float64 }

func (p *powerFit) stream(s *trace.Stream) {
	for i := range s.Steps {
		for rank, v := range s.ScoreList(i) {
			if v > 0 {
				x, y := math.Log(float64(rank+1)), math.Log(float64(v))
				p.n, p.x, p.y, p.xx, p.xy = p.n+1, p.x+x, p.y+y, p.xx+x*x, p.xy+x*y
			}
		}
	}
}

// exponent returns the power with its sign changed, 0 without scores.
func (p *powerFit) exponent() float64 {
	variance := p.n*p.xx - p.x*p.x
	if p.n == 0 || variance <= 0 {
		return 0
	}
	return round(max(0, min(10, -(p.n*p.xy-p.x*p.y)/variance)))
}

// estimate is the estimate of each dial from a measure.
type estimate struct {
	Locality
	runMedian float64
	soon      float64 // mean log odds of staying away longer than 1, 2, 4 and 8 steps
	unknown   float64 // share of the blocks entering at counted steps that had no demand before
	strange   float64 // share of the blocks entering at counted steps without a demand for long, or ever
}

// estimate estimates dials one by one. A dial with too few values keeps the value in from.
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

// soonOf returns the mean log odds of a curve at 1, 2, 4 and 8.
func soonOf(curve []float64) float64 {
	sum, n := 0.0, 0.0
	for x := 1; x <= min(8, len(curve)); x *= 2 {
		s := max(0.01, min(0.99, curve[x-1]))
		sum += math.Log(s / (1 - s))
		n++
	}
	return sum / max(1, n)
}

// soonCentre is the mean logarithm of 1, 2, 4 and 8. A law of median m and shape β has mean log
// odds β·(ln m − soonCentre) there.
const soonCentre = 1.5 * math.Ln2

// heatOf compares the gaps after a long one, of blocks seen for the first time, with all gaps. A
// block keeps its quantile with probability √heat. A share of heat therefore stays away as long
// again, and the others as all do.
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

// recentOf returns the share of the demand that generated tokens have in their first run. It is
// limited to a quarter, and so that other blocks have runs of more than a step.
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

// shortRun is the least mean run that recent tokens leave to other blocks.
const shortRun = 1.3

// hotOf returns the share of the demand that remains without recent tokens and runs of that median.
func hotOf(l *Locality, k, runMedian float64) float64 {
	var runs law
	runs.set(max(runMedian, 1e-3), l.RunShape, longestRun)
	return max(0, 1-(recentDemand(l, k)+(churnOf(l, k)-bornOf(l))*runs.meanSteps())/k)
}

const (
	rounds     = 8       // of correction
	twinTarget = 1 << 21 // indices of a layer's twins in a round

	mostCompany = 0.02 // limit of the fit: more makes short traces depend on luck
)

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

// correct moves each dial by gain times the difference between its target and its estimate.
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
	// Odds at short times and at a long one determine the law of gaps.
	soon := l.GapShape*(math.Log(l.GapMedian)-soonCentre) + gain*(target.soon-got.soon)
	slope := strangeSlope(l.GapShape, soon)
	factor(&l.GapShape, math.Pow(got.strange, 1/slope), math.Pow(target.strange, 1/slope))
	l.GapMedian = medianOf(l.GapShape, soon)
	l.Drift += gain * (target.unknown - got.unknown)
	factor(&l.Near, target.Near, got.Near)
	factor(&l.Neighbours, target.Neighbours, got.Neighbours)
	l.Heat += gain * (target.Heat - got.Heat)
}

// medianOf returns the median of a law of gaps with this shape and these odds at short times.
func medianOf(shape, soon float64) float64 { return math.Exp(soonCentre + soon/shape) }

// strangeSlope returns the relative fall of the gaps longer than longTime for a relative growth of
// their shape. The odds at short times stay.
func strangeSlope(shape, soon float64) float64 {
	longer := func(shape float64) float64 { return 1 / (1 + math.Pow(longTime/medianOf(shape, soon), shape)) }
	const step = 0.01
	return max(0.25, math.Log(longer(shape)/longer(shape*(1+step)))/math.Log1p(step))
}

// slack is the share of the demand that prevents contradictions between rounded dials.
const slack = 1e-3

// limit keeps dials in their ranges and free of contradictions.
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
