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
	Workers int // layers at once; 0: one for each CPU. The dials do not depend on it.
}

// Fit estimates the dials of the trace of f, layer by layer. First each dial is
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
	measures, scores, err := measureLayers(ctx, f, d)
	if err != nil {
		return nil, err
	}
	d.Scores = scores
	fitted := make([]Locality, d.Layers)
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
	d.setLayers(fitted)
	d.HeadSpread = headSpread(d, measures)
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
	layers, heads, requests := map[int32]bool{}, map[int32]bool{}, map[string]bool{}
	var prompts, steps, windows []int
	for _, s := range f.Streams() {
		layers[s.Layer], requests[s.Request] = true, true
		if s.Head != trace.NoHead {
			heads[s.Head] = true
		}
		prompts, steps, windows = append(prompts, int(s.PromptLen)), append(steps, s.Rows-s.Windows), append(windows, s.Windows)
	}
	d := Default()
	d.Requests, d.Layers, d.Heads = len(requests), len(layers), len(heads)
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

// measureLayers measures all streams, those of a layer together, and the scores.
func measureLayers(ctx context.Context, f *trace.File, d *Dials) ([]*measure, float64, error) {
	measures := make([]*measure, d.Layers)
	for i := range measures {
		measures[i] = &measure{topK: d.TopK}
	}
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
		m := measures[at]
		m.state, scratch = scratch, nil // one for all layers: contexts are long
		m.stream(&s)
		m.state, scratch = nil, m.state
		power.stream(&s)
	}
	return measures, power.exponent(), nil
}

// setLayers sets the dials of each layer, and those of all to their means.
func (d *Dials) setLayers(fitted []Locality) {
	d.ByLayer = map[string]Values{}
	for _, dial := range LocalityDials {
		values, mean := make(Values, len(fitted)), 0.0
		for i := range fitted {
			values[i] = round(*dial.At(&fitted[i]))
			mean += values[i] / float64(len(fitted))
		}
		*dial.At(&d.Locality) = round(mean)
		d.ByLayer[dial.Name] = values
	}
	if len(fitted) == 1 {
		d.ByLayer = nil
	}
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

// headSpread is the standard deviation of log churn between the heads of a layer.
func headSpread(d *Dials, measures []*measure) float64 {
	if d.Heads < 2 {
		return 0
	}
	sum, n := 0.0, 0.0
	for _, m := range measures {
		var logs []float64
		for _, c := range m.churns {
			if c > 0 {
				logs = append(logs, math.Log(c))
			}
		}
		mean := 0.0
		for _, v := range logs {
			mean += v / float64(len(logs))
		}
		for _, v := range logs {
			sum += (v - mean) * (v - mean)
		}
		n += max(0, float64(len(logs)-1))
	}
	if n == 0 {
		return 0
	}
	return round(min(2, math.Sqrt(sum/n)))
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
