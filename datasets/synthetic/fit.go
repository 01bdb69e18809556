package synthetic

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/trace"
)

// FitOptions say how dials are fitted.
type FitOptions struct {
	Workers int // layers or heads at once; 0: one for each CPU. The dials do not depend on it.
}

// Fit estimates the dials of the trace of f, layer by layer, and head by head where heads
// select. First each dial is
// estimated by itself; then twins are drawn and the dials corrected by what the same
// estimates say of them, several times. One stream a worker is in memory.
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
	g.SetLimit(workersOf(o.Workers))
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

func workersOf(n int) int {
	if n <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}

// extentOf is the extent of a trace; where streams differ, the middle one's.
func extentOf(f *trace.File) (*Dials, error) {
	m := f.Meta()
	if m.BlockTokens != 1 {
		return nil, fmt.Errorf("block_tokens is %d; dials are fitted to traces of single tokens", m.BlockTokens)
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
	ids := make([]int32, 0, len(layers))
	for id := range layers {
		ids = append(ids, id)
	}
	if slices.Sort(ids); int(ids[len(ids)-1]) != len(ids)-1 {
		d.LayerIDs = ids
	}
	d.Locality = Locality{RunShape: 1, GapMedian: 1, GapShape: 1}
	d.About = fmt.Sprintf("fitted by kvreplay to %s (K = %d, M = %d, %d layers)", modelOf(m), m.TopK, m.Candidates, d.Layers)
	if d.Steps < fewestSteps {
		return nil, fmt.Errorf("streams of %d steps, expected at least %d to see anything return", d.Steps, fewestSteps)
	}
	return &d, d.Validate()
}

// setPins takes over the sink and the local window of a trace, where its lists leave the
// pinned tokens out: the first stream tells.
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

// fewestSteps is the length of the shortest streams that are fitted.
const fewestSteps = 8

func modelOf(m *trace.Meta) string {
	if m.Model == "" {
		return "a trace of an unnamed model"
	}
	return "a trace of " + m.Model
}

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
		m.state, scratch = scratch, nil // one for all layers: contexts are long
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

// headsOf are the numbers of the heads, ascending; none where layers share a selection.
func headsOf(f *trace.File) []int32 {
	var heads []int32
	for _, s := range f.Streams() {
		if at, ok := slices.BinarySearch(heads, s.Head); !ok && s.Head != trace.NoHead {
			heads = slices.Insert(heads, at, s.Head)
		}
	}
	return heads
}

// setByLayer sets the dials of each layer, or of each of its heads, and those of all to
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

// round rounds the dials, the overlap not beyond what can be.
func (l *Locality) round(k int) {
	for _, dial := range LocalityDials {
		v := dial.At(l)
		*v = round(*v)
	}
	l.Overlap = min(l.Overlap, mostOverlap(l, k))
}

// round keeps four significant digits: dial files are read by people.
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

// exponent is the power with its sign changed, 0 without scores.
func (p *powerFit) exponent() float64 {
	variance := p.n*p.xx - p.x*p.x
	if p.n == 0 || variance <= 0 {
		return 0
	}
	return round(max(0, min(10, -(p.n*p.xy-p.x*p.y)/variance)))
}
