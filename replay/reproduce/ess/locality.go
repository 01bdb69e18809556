package ess

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// ratios are the Sparse Memory Ratios that are replayed.
var ratios = []float64{0.1, 0.2, 0.3, 0.4, 0.5}

// middle is the ratio of the paper's examples.
const middle = 0.2

// traced is a trace replayed with LRU at the ratios after 32 windows, and without windows at the
// middle ratio. It leaves out ratios whose cache does not hold one demand.
type traced struct {
	name    string
	model   string
	context int // mean prompt length in tokens
	topk    int
	windows int
	layers  []int32
	at      map[float64]*misses
	cold    *misses
}

// misses are the misses of a replay as shares of the demand, pooled over requests and heads.
type misses struct {
	mean   float64
	layers []float64 // by layer
	steps  []float64 // by decode step, up to the end of the shortest request
}

func pool(p *pipeline.Profile) *misses {
	steps := len(p.Requests[0].Steps[0])
	for i := range p.Requests {
		steps = min(steps, len(p.Requests[i].Steps[0]))
	}
	m := &misses{layers: make([]float64, len(p.Layers)), steps: make([]float64, steps)}
	var missed, demand float64
	byStep := make([]float64, steps) // demand by step
	for l := range p.Layers {
		var layerMissed, layerDemand float64
		for i := range p.Requests {
			for t, c := range p.Requests[i].Steps[l] {
				layerMissed += float64(c.Fetched)
				layerDemand += float64(c.Demand)
				if t < steps {
					m.steps[t] += float64(c.Fetched)
					byStep[t] += float64(c.Demand)
				}
			}
		}
		m.layers[l] = layerMissed / layerDemand
		missed, demand = missed+layerMissed, demand+layerDemand
	}
	for t := range m.steps {
		m.steps[t] /= byStep[t]
	}
	m.mean = missed / demand
	return m
}

// trace replays a trace. It returns nil if the middle ratio does not hold a demand.
func (b *bench) trace(f *reproduce.Trace) *traced {
	t := &traced{name: f.Name, model: cmp.Or(f.Meta().Model, "an unnamed model"), topk: f.Meta().TopK,
		windows: f.Streams()[0].Windows, at: map[float64]*misses{}}
	sum := 0
	for _, info := range f.Streams() {
		sum += int(info.PromptLen)
		t.windows = min(t.windows, info.Windows)
	}
	t.context = sum / len(f.Streams())
	warmup := "cold"
	if t.windows > 0 {
		warmup = fmt.Sprintf("lru:%d", min(32, t.windows))
	}
	kept := slice.Filter(ratios, func(r float64) bool { return r*float64(t.context) >= float64(t.topk) })
	if !slices.Contains(kept, middle) {
		return nil
	}
	for i, p := range b.replay(f, warmup, 1, capacitiesOf(kept...)...) {
		t.layers, t.at[kept[i]] = p.Layers, pool(p)
	}
	t.cold = pool(b.replay(f, "cold", 1, capacitiesOf(middle)...)[0])
	return t
}

// observed holds the traces of the figures.
type observed struct {
	short  *traced   // synthetic, 32K
	long   *traced   // synthetic, 128K
	traces []*traced // real
}

// locality computes the figures about misses. The real traces are those of the exact selection, in
// the order of their file names.
func (b *bench) locality() {
	o := &observed{short: b.trace(b.synthetic(short)), long: b.trace(b.synthetic(long))}
	byName := func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) }
	for _, path := range slices.SortedFunc(slices.Values(b.RealTraces()), byName) {
		f := b.Open(path)
		if m := f.Meta(); m.Synthetic() || m.Selector != "" && m.Selector != "exact" {
			continue
		}
		if t := b.trace(f); t != nil {
			o.traces = append(o.traces, t)
		}
	}
	o.similarity(b.Section("fig-2"))
	o.warmup(b.Section("fig-4"))
	o.byLayer(b.Section("fig-5"), !b.Short)
	o.layersByContext(b.Section("fig-8"))
	o.contexts(b.Section("fig-9"))
}

// others names the models of the real traces. Statements about DeepSeek need not hold for them.
func (o *observed) others() string {
	var models []string
	least, most := o.traces[0].context, 0
	for _, t := range o.traces {
		least, most = min(least, t.context), max(most, t.context)
		models = slice.Add(models, t.model)
	}
	slices.Sort(models)
	return fmt.Sprintf("these traces are of %s with prompts of %d to %d tokens", strings.Join(models, ", "), least, most)
}

// property returns a figure of a trace and whether a statement about it holds. ok reports whether
// the statement applies to the trace.
type property func(t *traced) (value float64, holds, ok bool)

// both decides a statement about the synthetic trace of 32K and about each real trace.
func (o *observed) both(d *reproduce.Draft, line string, figure property) {
	v, holds, _ := figure(o.short)
	d.Holds("synthetic 32K: "+line, v, holds)
	o.each(d, line, figure)
}

// each decides a statement about every real trace that it applies to. Our figure is the median. If
// the statement fails for any of them, it is a known miss.
func (o *observed) each(d *reproduce.Draft, line string, figure property) {
	var values []float64
	var against []string
	for _, t := range o.traces {
		v, holds, ok := figure(t)
		if !ok {
			continue
		}
		values = append(values, v)
		if !holds {
			against = append(against, fmt.Sprintf("%s (%.3g)", t.name, v))
		}
	}
	if len(values) == 0 {
		d.Absent("real: "+line, reproduce.Row{"traces": "real traces"})
		return
	}
	slices.Sort(values)
	d.Holds("real: "+line, median(values), len(against) == 0, reproduce.Row{
		"against": strings.Join(against, ", "), "others": o.others(),
		"traces": english.Plural(len(values), "real trace", "real traces, each of them (ours: the median)")})
}

// median returns the middle of ascending values. If their number is even, it is the mean of the two
// in the middle.
func median(values []float64) float64 {
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// group are traces whose figures are averaged: their names begin alike.
type group struct {
	name   string
	traces []*traced
}

// groups returns the synthetic trace of 32K, and the real ones by the first word of their names.
func (o *observed) groups() []group {
	list := []group{{o.short.name, []*traced{o.short}}}
	for _, t := range o.traces {
		word, _, _ := strings.Cut(t.name, "_")
		if last := &list[len(list)-1]; len(list) > 1 && last.name == word {
			last.traces = append(last.traces, t)
		} else {
			list = append(list, group{word, []*traced{t}})
		}
	}
	return list
}

// mean returns the mean of the traces' misses by step, up to the end of the shortest trace.
func (g *group) mean(choose func(t *traced) *misses) (points []figure.Point) {
	steps := len(choose(g.traces[0]).steps)
	for _, t := range g.traces {
		steps = min(steps, len(choose(t).steps))
	}
	for i := range steps {
		sum := slice.Sum(g.traces, func(t *traced) float64 { return choose(t).steps[i] / float64(len(g.traces)) })
		points = append(points, figure.At(float64(i), sum))
	}
	return points
}

func warm(t *traced) *misses { return t.at[middle] }
func cold(t *traced) *misses { return t.cold }

func (o *observed) similarity(d *reproduce.Draft) {
	late := func(t *traced) (mean, spread float64) {
		mean, spread = stat.MeanStdDev(t.at[middle].steps[min(16, len(t.at[middle].steps)/2):], nil)
		return 1 - mean, spread
	}
	o.both(d, "high", func(t *traced) (float64, bool, bool) { m, _ := late(t); return 100 * m, m >= 0.8, true })
	o.both(d, "stable", func(t *traced) (float64, bool, bool) { _, s := late(t); return 100 * s, s <= 0.05, true })
	var lines []figure.Line
	for _, g := range o.groups() {
		l := figure.Line{Name: g.name, Points: g.mean(warm)}
		for i := range l.Points {
			l.Points[i] = figure.At(l.Points[i].X, 1-l.Points[i].Y)
		}
		lines = append(lines, l)
	}
	d.Draw("ess-fig-2", lines)
}

func (o *observed) warmup(d *reproduce.Draft) {
	o.both(d, "first step", func(t *traced) (float64, bool, bool) { // relative to the later half
		cold := t.cold.steps
		v := cold[0] / stat.Mean(cold[len(cold)/2:], nil)
		return v, v >= 3, true
	})
	o.both(d, "fades", func(t *traced) (float64, bool, bool) {
		cold := t.cold.steps
		v := stat.Mean(cold[min(16, len(cold)/2):], nil) / cold[0]
		return 100 * v, v <= 1./3, true
	})
	o.both(d, "warmed up", func(t *traced) (float64, bool, bool) { // relative to the first 8 steps
		n := min(8, len(t.cold.steps))
		v := 1 - stat.Mean(t.at[middle].steps[:n], nil)/stat.Mean(t.cold.steps[:n], nil)
		return 100 * v, v >= 0.5, t.windows > 0
	})
	var lines []figure.Line
	for _, g := range o.groups() {
		g.traces = slices.DeleteFunc(slices.Clone(g.traces), func(t *traced) bool { return t.windows == 0 })
		if len(g.traces) == 0 {
			continue
		}
		const first = 32 // steps
		cold, warm := g.mean(cold), g.mean(warm)
		lines = append(lines, figure.Line{Name: g.name + ", cold", Points: cold[:min(first, len(cold))]},
			figure.Line{Name: g.name + ", warm", Points: warm[:min(first, len(warm))]})
	}
	d.Draw("ess-fig-4", lines)
}

// byLayer computes Fig. 5. The dials of the synthetic trace are fitted to all of its steps.
func (o *observed) byLayer(d *reproduce.Draft, whole bool) {
	k := float64(o.short.topk)
	if m := o.short.at[middle].layers; whole {
		d.Set("least of a layer", k*slices.Min(m))
		d.Set("most of a layer", k*slices.Max(m))
	}
	width := func(m *misses) float64 { return slices.Max(m.layers) - slices.Min(m.layers) }
	o.both(d, "layers differ", func(t *traced) (float64, bool, bool) {
		m := t.at[middle].layers
		v := slices.Max(m) / slices.Min(m)
		return v, v >= 2, len(m) >= 6
	})
	o.both(d, "layers differ less", func(t *traced) (float64, bool, bool) {
		v := width(t.at[0.4]) / width(t.at[middle])
		return v, v < 1, len(t.layers) >= 6
	})
	o.both(d, "falls", func(t *traced) (float64, bool, bool) {
		before, holds := math.Inf(1), true
		for _, r := range ratios {
			if at := t.at[r]; at != nil {
				holds, before = holds && at.mean <= before, at.mean
			}
		}
		return 100 * t.at[0.5].mean / t.at[middle].mean, holds, true
	})
	byRatio := func(t *traced, scale float64) (lines []figure.Line) {
		for _, r := range ratios {
			if at := t.at[r]; at != nil {
				l := figure.Line{Name: fmt.Sprintf("ratio %g", r), Points: t.overLayers(at)}
				for i := range l.Points {
					l.Points[i] = figure.At(l.Points[i].X, scale*l.Points[i].Y)
				}
				lines = append(lines, l)
			}
		}
		return lines
	}
	d.Draw("ess-fig-5", byRatio(o.short, k))
	// The real trace with the most layers and, among these, the longest context.
	if len(o.traces) > 0 {
		deepest := slices.MaxFunc(o.traces, func(a, b *traced) int {
			return cmp.Or(cmp.Compare(len(a.layers), len(b.layers)), cmp.Compare(a.context, b.context))
		})
		d.Let("deepest", deepest.name)
		d.Draw("ess-fig-5-real", byRatio(deepest, 1))
	}
}

func (t *traced) overLayers(m *misses) (points []figure.Point) {
	for i, v := range m.layers {
		points = append(points, figure.At(float64(t.layers[i]), v))
	}
	return points
}

// rankCorrelation returns Spearman's coefficient. Equal values share the mean of their ranks.
func rankCorrelation(a, b []float64) float64 {
	ranks := func(values []float64) []float64 {
		order, rank := slice.Indices(len(values)), make([]float64, len(values))
		sort.SliceStable(order, func(i, j int) bool { return values[order[i]] < values[order[j]] })
		for first, last := 0, 0; first < len(order); first = last {
			for last < len(order) && values[order[last]] == values[order[first]] {
				last++
			}
			for _, i := range order[first:last] {
				rank[i] = float64(first+last-1) / 2
			}
		}
		return rank
	}
	return stat.Correlation(ranks(a), ranks(b), nil)
}

// sameOrder returns the rank correlation of the misses of two traces over their common layers.
func sameOrder(a, b *traced) float64 {
	var x, y []float64
	for i, layer := range a.layers {
		if j := slices.Index(b.layers, layer); j >= 0 {
			x, y = append(x, a.at[middle].layers[i]), append(y, b.at[middle].layers[j])
		}
	}
	return rankCorrelation(x, y)
}

// layersByContext computes Fig. 8. Real traces of at least 12 layers are compared in pairs.
func (o *observed) layersByContext(d *reproduce.Draft) {
	d.Set("synthetic", sameOrder(o.short, o.long))
	deep := slice.Filter(o.traces, func(t *traced) bool { return len(t.layers) >= 12 })
	var values []float64
	var against []string
	for i, a := range deep {
		for _, b := range deep[i+1:] {
			c := sameOrder(a, b)
			values = append(values, c)
			if c < 0.5 {
				against = append(against, fmt.Sprintf("%s and %s (%.2f)", a.name, b.name, c))
			}
		}
	}
	if len(values) == 0 {
		d.Absent("real", reproduce.Row{"traces": "real traces"})
	} else {
		slices.Sort(values)
		traces := english.Plural(len(values), "pair of real traces", "pairs of real traces, each of them (ours: the median)")
		row := reproduce.Row{"traces": traces, "against": strings.Join(against, ", ")}
		d.Holds("real", median(values), len(against) == 0, row)
	}
	var lines []figure.Line
	for _, t := range append([]*traced{o.short, o.long}, deep...) {
		name := fmt.Sprintf("%s, %d tokens", t.name, t.context)
		lines = append(lines, figure.Line{Name: name, Points: t.overLayers(t.at[middle])})
	}
	d.Draw("ess-fig-8", lines)
}

func (o *observed) contexts(d *reproduce.Draft) {
	fewer := true
	for _, r := range ratios {
		fewer = fewer && o.long.at[r].mean < o.short.at[r].mean
	}
	d.Holds("fewer", 100*o.long.at[0.1].mean/o.short.at[0.1].mean, fewer)
	flat := func(t *traced) (float64, bool, bool) {
		if t.at[0.1] == nil {
			return 0, false, false
		}
		v := (t.at[middle].mean - t.at[0.5].mean) / (t.at[0.1].mean - t.at[0.5].mean)
		return 100 * v, v <= 0.5, true
	}
	o.both(d, "stable", flat)
	v, holds, _ := flat(o.long)
	d.Holds("synthetic 128K: stable", v, holds)

	// Rank correlation over the real traces: with a longer context in units of K, the share of
	// misses at 0.2 falls.
	var contexts, missed []float64
	for _, t := range o.traces {
		contexts, missed = append(contexts, float64(t.context)/float64(t.topk)), append(missed, t.at[middle].mean)
	}
	if n := len(contexts); n < 3 {
		d.Absent("longer", reproduce.Row{"traces": "real traces"})
	} else {
		c := rankCorrelation(contexts, missed)
		d.Holds("longer", c, c < 0, reproduce.Row{"traces": fmt.Sprintf("%d real traces", n), "others": o.others()})
	}
	d.Set("recommended", middle*short/1024)
	var lines []figure.Line
	for _, t := range append([]*traced{o.short, o.long}, o.traces...) {
		l := figure.Line{Name: fmt.Sprintf("%s, context %.0f K", t.name, float64(t.context)/float64(t.topk))}
		for _, r := range ratios {
			if at := t.at[r]; at != nil {
				l.Points = append(l.Points, figure.At(r, at.mean))
			}
		}
		lines = append(lines, l)
	}
	d.Draw("ess-fig-9", lines)
}
