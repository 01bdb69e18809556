package ess

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// observed are the traces that the figures are drawn of.
type observed struct {
	short  *traced   // synthetic, 32K
	long   *traced   // synthetic, 128K
	traces []*traced // real
	cut    bool      // synthetic traces are shorter
}

// locality are the figures about misses.
func (s *study) locality() ([]reproduce.Section, error) {
	o := observed{cut: s.in.Short}
	for context, into := range map[int]**traced{short: &o.short, long: &o.long} {
		source, err := s.synthetic(context)
		if err != nil {
			return nil, err
		}
		t, err := s.trace(source)
		if err != nil {
			return nil, err
		}
		*into = t
	}
	var err error
	if o.traces, err = s.real(); err != nil {
		return nil, err
	}
	var sections []reproduce.Section
	for _, of := range []func() (*reproduce.Section, error){o.similarity, o.warmup, o.byLayer, o.layersByContext, o.contexts} {
		section, err := of()
		if err != nil {
			return nil, err
		}
		sections = append(sections, *section)
	}
	return sections, nil
}

// others says what the real traces are of: statements about DeepSeek need not hold of them.
func (o *observed) others() string {
	var models []string
	least, most := o.traces[0].context, 0
	for _, t := range o.traces {
		least, most = min(least, t.context), max(most, t.context)
		if !slices.Contains(models, t.model) {
			models = append(models, t.model)
		}
	}
	slices.Sort(models)
	return fmt.Sprintf("these are of %s with %d to %d tokens", strings.Join(models, ", "), least, most)
}

// each holds a statement against every real trace that it can be judged on: ours is the
// median. Where it does not hold on each of them, it is a known miss.
func (o *observed) each(item, unit string, of func(t *traced) (value float64, holds, ok bool)) (l reproduce.Line) {
	var values []float64
	var against []string
	for _, t := range o.traces {
		v, holds, ok := of(t)
		if !ok {
			continue
		}
		values = append(values, v)
		if !holds {
			against = append(against, fmt.Sprintf("%s (%.3g)", t.name, v))
		}
	}
	if len(values) == 0 {
		return reproduce.Absent("real traces: "+item, "", reproduce.Target{}, "no real trace that it can be judged on was given. Name some with --traces")
	}
	slices.Sort(values)
	l = reproduce.Statement(fmt.Sprintf("%s: %s", count(len(values), "real trace", "real traces, on each of them (ours the median)"), item), unit, median(values), len(against) == 0)
	if !l.Holds {
		l.Known, l.Note = true, fmt.Sprintf("not on %s; %s", strings.Join(against, ", "), o.others())
	}
	return l
}

// median is the middle of ascending values, the mean of the two in the middle where their
// number is even.
func median(values []float64) float64 {
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// count names how many there are.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// points are values over 0, 1, …
func points(values []float64) (xys plotter.XYs) {
	for i, v := range values {
		xys = append(xys, plotter.XY{X: float64(i), Y: v})
	}
	return xys
}

// similarity is Fig. 2.
func (o *observed) similarity() (*reproduce.Section, error) {
	section := &reproduce.Section{Name: "fig-2", Covers: []string{"Fig. 2"}, Title: "Fig. 2: similarity of the demand and what the GPU keeps",
		Method: "kvreplay replay --policy lru --capacity 0.2ctx: the share of a step's demand that is resident before its fetch, layers and requests pooled (Eq. 1, whose formula the text lacks, as section 2.2 describes it). The paper's figure is of LongBench v2 on DeepSeek-V3.2-Exp and prints no values."}
	const high, steady = 0.8, 0.05
	judge := func(t *traced) (mean, spread float64) {
		mean, spread = stat.MeanStdDev(t.at[middle].steps[min(16, len(t.at[middle].steps)/2):], nil)
		return 1 - mean, spread
	}
	mean, spread := judge(o.short)
	section.Lines = []reproduce.Line{
		reproduce.Statement("synthetic 32K: high, at least 80 % from step 16 on", "%", 100*mean, mean >= high),
		reproduce.Statement("synthetic 32K: stable, a standard deviation over these steps of at most 5 points", "points", 100*spread, spread <= steady),
		o.each("high, at least 80 % from step 16 on", "%", func(t *traced) (float64, bool, bool) { m, _ := judge(t); return 100 * m, m >= high, true }),
		o.each("stable, a standard deviation over these steps of at most 5 points", "points", func(t *traced) (float64, bool, bool) { _, d := judge(t); return 100 * d, d <= steady, true }),
	}
	c := &chart.Chart{Title: "Demand that LRU keeps at a ratio of 0.2 (ESS, Fig. 2)", X: "decode step", Y: "resident ÷ demand"}
	for _, g := range o.groups() {
		l := chart.Line{Name: g.name, Points: g.mean(func(t *traced) *misses { return t.at[middle] })}
		for i := range l.Points {
			l.Points[i].Y = 1 - l.Points[i].Y
		}
		c.Lines = append(c.Lines, l)
	}
	return section, section.Draw("ess-fig-2", "Share of the demand that is resident, by decode step, for the synthetic trace and the means of real ones.", c)
}

// group are traces whose figures are averaged: their names begin alike.
type group struct {
	name   string
	traces []*traced
}

// groups are the synthetic trace of 32K and the real ones, by the first word of their
// names.
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

// mean is that of the traces' misses by step, as far as all of them go.
func (g *group) mean(of func(t *traced) *misses) plotter.XYs {
	steps := len(of(g.traces[0]).steps)
	for _, t := range g.traces {
		steps = min(steps, len(of(t).steps))
	}
	values := make([]float64, steps)
	for _, t := range g.traces {
		for i := range values {
			values[i] += of(t).steps[i] / float64(len(g.traces))
		}
	}
	return points(values)
}

// warmup is Fig. 4.
func (o *observed) warmup() (*reproduce.Section, error) {
	section := &reproduce.Section{Name: "fig-4", Covers: []string{"Fig. 4"}, Title: "Fig. 4: misses at the beginning of decoding, with and without LRU-Warmup",
		Method: "kvreplay replay --policy lru --capacity 0.2ctx, --warmup cold and --warmup lru:32."}
	first := func(t *traced) (float64, bool, bool) { // times what it is late
		cold := t.cold.steps
		v := cold[0] / stat.Mean(cold[len(cold)/2:], nil)
		return v, v >= 3, true
	}
	fades := func(t *traced) (float64, bool, bool) {
		cold := t.cold.steps
		v := stat.Mean(cold[min(16, len(cold)/2):], nil) / cold[0]
		return 100 * v, v <= 1./3, true
	}
	warm := func(t *traced) (float64, bool, bool) { // over the first 8 steps
		n := min(8, len(t.cold.steps))
		v := 1 - stat.Mean(t.at[middle].steps[:n], nil)/stat.Mean(t.cold.steps[:n], nil)
		return 100 * v, v >= 0.5, t.windows > 0
	}
	for _, x := range []struct {
		item, unit string
		of         func(t *traced) (float64, bool, bool)
	}{
		{"cold, the first step misses at least 3 times as much as the later half", "times", first},
		{"cold, steps from the 16th on miss at most a third of the first", "%", fades},
		{"warmed up, the first 8 steps miss less than half of what they do cold; less by", "%", warm},
	} {
		v, holds, _ := x.of(o.short)
		section.Lines = append(section.Lines, reproduce.Statement("synthetic 32K: "+x.item, x.unit, v, holds), o.each(x.item, x.unit, x.of))
	}
	c := &chart.Chart{Title: "Misses at the beginning, cold and warmed up (ESS, Fig. 4)", X: "decode step", Y: "misses ÷ demand, ratio 0.2"}
	for _, g := range o.groups() {
		g.traces = slices.DeleteFunc(slices.Clone(g.traces), func(t *traced) bool { return t.windows == 0 })
		if len(g.traces) == 0 {
			continue
		}
		const first = 32 // steps
		cold, warm := g.mean(func(t *traced) *misses { return t.cold }), g.mean(func(t *traced) *misses { return t.at[middle] })
		c.Lines = append(c.Lines, chart.Line{Name: g.name + ", cold", Points: cold[:min(first, len(cold))]}, chart.Line{Name: g.name + ", warm", Points: warm[:min(first, len(warm))]})
	}
	return section, section.Draw("ess-fig-4", "Misses by decode step, cold and warmed up, for the synthetic trace and the means of real ones.", c)
}

// byLayer is Fig. 5.
func (o *observed) byLayer() (*reproduce.Section, error) {
	section := &reproduce.Section{Name: "fig-5", Covers: []string{"Fig. 5"}, Title: "Fig. 5: misses by layer and Sparse Memory Ratio",
		Method: "kvreplay replay --policy lru --capacity 0.1ctx,…,0.5ctx --per layer, warmed up: entries a step, request and layer. The dials of the synthetic trace were fitted to the printed range at 0.2; which layer misses how much is assumed (datasets/synthetic)."}
	k := float64(o.short.topk)
	m := o.short.at[middle].layers
	if !o.cut { // the dials are of all steps
		section.Lines = append(section.Lines,
			reproduce.Compare(reproduce.Fitted, "synthetic 32K, ratio 0.2, least of a layer", "", reproduce.Printed(16.66), k*slices.Min(m), reproduce.Gate{Relative: 0.1}),
			reproduce.Compare(reproduce.Fitted, "synthetic 32K, ratio 0.2, most of a layer", "", reproduce.Printed(605), k*slices.Max(m), reproduce.Gate{Relative: 0.1}))
	}
	varies := func(t *traced) (float64, bool, bool) {
		m := t.at[middle].layers
		v := slices.Max(m) / slices.Min(m)
		return v, v >= 2, len(m) >= 6
	}
	narrows := func(t *traced) (float64, bool, bool) {
		wide, narrow := t.at[middle].layers, t.at[0.4].layers
		v := (slices.Max(narrow) - slices.Min(narrow)) / (slices.Max(wide) - slices.Min(wide))
		return v, v < 1, len(wide) >= 6
	}
	falls := func(t *traced) (float64, bool, bool) {
		before, holds := math.Inf(1), true
		for _, r := range ratios {
			if at := t.at[r]; at != nil {
				holds, before = holds && at.mean <= before, at.mean
			}
		}
		return 100 * t.at[0.5].mean / t.at[middle].mean, holds, true
	}
	for _, x := range []struct {
		item, unit string
		of         func(t *traced) (float64, bool, bool)
	}{
		{"layers differ, the most is at least twice the least; times", "", varies},
		{"layers differ less with more memory, range at 0.4 over that at 0.2", "", narrows},
		{"the mean falls from each ratio to the next; that at 0.5 over that at 0.2", "%", falls},
	} {
		v, holds, _ := x.of(o.short)
		section.Lines = append(section.Lines, reproduce.Statement("synthetic 32K: "+x.item, x.unit, v, holds), o.each(x.item, x.unit, x.of))
	}
	section.Contradictions = []string{"Misses are called an average per batch. 605 of the 2048 entries that a step demands are meant of one request: 605 × 656 B of a whole batch would take 11 us at 37 GB/s, and no overlap would be needed."}
	c := &chart.Chart{Title: "Misses by layer and ratio, synthetic 32K (ESS, Fig. 5)", X: "layer", Y: "misses a step and request", Open: true, Ticks: chart.Ticks(0, 10, 20, 30, 40, 50, 60)}
	for _, r := range ratios {
		l := chart.Line{Name: fmt.Sprintf("ratio %g", r), Points: o.short.overLayers(o.short.at[r])}
		for i := range l.Points {
			l.Points[i].Y *= k
		}
		c.Lines = append(c.Lines, l)
	}
	if err := section.Draw("ess-fig-5", "Misses by layer at five ratios, on the synthetic trace.", c); err != nil {
		return nil, err
	}
	deepest := o.deepest()
	if deepest == nil {
		return section, nil
	}
	c = &chart.Chart{Title: "Misses by layer and ratio, " + deepest.name + " (ESS, Fig. 5)", X: "layer", Y: "misses ÷ demand", Open: true}
	for _, r := range ratios {
		if at := deepest.at[r]; at != nil {
			c.Lines = append(c.Lines, chart.Line{Name: fmt.Sprintf("ratio %g", r), Points: deepest.overLayers(at)})
		}
	}
	return section, section.Draw("ess-fig-5-real", "Misses by layer at five ratios, on a real trace.", c)
}

// deepest is the real trace with most layers, of these the one with the longest context;
// the first of equals.
func (o *observed) deepest() (best *traced) {
	for _, t := range o.traces {
		if best == nil || cmp.Or(cmp.Compare(len(t.layers), len(best.layers)), cmp.Compare(t.context, best.context)) > 0 {
			best = t
		}
	}
	return best
}

func (t *traced) overLayers(m *misses) (xys plotter.XYs) {
	for i, v := range m.layers {
		xys = append(xys, plotter.XY{X: float64(t.layers[i]), Y: v})
	}
	return xys
}
