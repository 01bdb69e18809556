package ess

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// rankCorrelation is Spearman's; equal values share the mean of their ranks.
func rankCorrelation(a, b []float64) float64 {
	ranks := func(values []float64) []float64 {
		order, rank := make([]int, len(values)), make([]float64, len(values))
		for i := range order {
			order[i] = i
		}
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

// sameOrder is the rank correlation of what two traces miss in the layers that both have.
func sameOrder(a, b *traced) float64 {
	var x, y []float64
	for i, layer := range a.layers {
		if j := slices.Index(b.layers, layer); j >= 0 {
			x, y = append(x, a.at[middle].layers[i]), append(y, b.at[middle].layers[j])
		}
	}
	return rankCorrelation(x, y)
}

// layersByContext is Fig. 8.
func (o *observed) layersByContext() (*reproduce.Section, error) {
	section := &reproduce.Section{Name: "fig-8", Covers: []string{"Fig. 8"}, Title: "Fig. 8: misses by layer at several contexts",
		Method: "As Fig. 5, at 0.2. The synthetic traces have the same dials at every context, so that they say nothing of the paper's claim but what contexts alone do; the real ones do."}
	c := sameOrder(o.short, o.long)
	section.Lines = append(section.Lines, reproduce.Statement("synthetic 128K: layers in the order of 32K, rank correlation at least 0.9", "", c, c >= 0.9), o.pairs())
	ch := &chart.Chart{Title: "Misses by layer at a ratio of 0.2, by context (ESS, Fig. 8)", X: "layer", Y: "misses ÷ demand", Open: true, Ticks: chart.Ticks(0, 10, 20, 30, 40, 50, 60)}
	for _, t := range append([]*traced{o.short, o.long}, o.deep()...) {
		ch.Lines = append(ch.Lines, chart.Line{Name: fmt.Sprintf("%s, %d tokens", t.name, t.context), Points: t.overLayers(t.at[middle])})
	}
	return section, section.Draw("ess-fig-8", "Misses by layer at a ratio of 0.2, a line each for the synthetic contexts and the real traces of all layers.", ch)
}

// deep are the real traces of at least 12 layers.
func (o *observed) deep() (list []*traced) {
	for _, t := range o.traces {
		if len(t.layers) >= 12 {
			list = append(list, t)
		}
	}
	return list
}

// pairs compares the layers of the real traces pair by pair.
func (o *observed) pairs() reproduce.Line {
	const item = "layers in the same order at other contexts and tasks, rank correlation at least 0.5"
	var values []float64
	var against []string
	deep := o.deep()
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
		return reproduce.Absent("real traces: "+item, "", reproduce.Target{}, "no two real traces of all layers were given. Name some with --traces")
	}
	slices.Sort(values)
	l := reproduce.Statement(fmt.Sprintf("%s: %s", count(len(values), "pair of real traces", "pairs of real traces, in each of them (ours the median)"), item), "", median(values), len(against) == 0)
	if !l.Holds {
		l.Known, l.Note = true, "not "+strings.Join(against, ", ")+"; they differ in K and task as well"
	}
	return l
}

// contexts is Fig. 9.
func (o *observed) contexts() (*reproduce.Section, error) {
	section := &reproduce.Section{Name: "fig-9", Covers: []string{"Fig. 9"}, Title: "Fig. 9: mean misses by ratio and context",
		Method: "As Fig. 5, layers pooled. Contexts of real traces are compared by context ÷ K: ESS's are 16 at 32K and 64 at 128K."}
	fewer := true
	for _, r := range ratios {
		fewer = fewer && o.long.at[r].mean < o.short.at[r].mean
	}
	section.Lines = append(section.Lines, reproduce.Statement("synthetic: fewer at 128K than at 32K, at every ratio; at 0.1, 128K over 32K", "%", 100*o.long.at[0.1].mean/o.short.at[0.1].mean, fewer))
	flat := func(t *traced) (float64, bool, bool) {
		if t.at[0.1] == nil {
			return 0, false, false
		}
		v := (t.at[middle].mean - t.at[0.5].mean) / (t.at[0.1].mean - t.at[0.5].mean)
		return 100 * v, v <= 0.5, true
	}
	for _, t := range []*traced{o.short, o.long} {
		v, holds, _ := flat(t)
		section.Lines = append(section.Lines, reproduce.Statement(t.name+": stable above 0.2, at most half of what 0.1 misses more than 0.5 is left at 0.2", "%", v, holds))
	}
	section.Lines = append(section.Lines,
		o.each("stable above 0.2, at most half of what 0.1 misses more than 0.5 is left at 0.2", "%", flat),
		o.longer(),
		reproduce.Compare(reproduce.Arithmetic, "the pool that is recommended is a ratio of 0.2 at 32K", "K entries", reproduce.Printed(6.4), middle*short/1024, reproduce.Gate{Absolute: 0.05}))
	c := &chart.Chart{Title: "Mean misses by ratio (ESS, Fig. 9)", X: "Sparse Memory Ratio", Y: "misses ÷ demand", Open: true, Ticks: chart.Ticks(ratios...)}
	for _, t := range append([]*traced{o.short, o.long}, o.traces...) {
		l := chart.Line{Name: fmt.Sprintf("%s, context %.0f K", t.name, float64(t.context)/float64(t.topk))}
		for _, r := range ratios {
			if at := t.at[r]; at != nil {
				l.Points = append(l.Points, plotter.XY{X: r, Y: at.mean})
			}
		}
		c.Lines = append(c.Lines, l)
	}
	section.Contradictions = []string{"Ratios above 0.2 are called stable for all contexts, and a pool of 6.4K enough: at 128K that is a ratio of 0.05."}
	return section, section.Draw("ess-fig-9", "Mean misses by ratio, a line each for the synthetic contexts and the real traces.", c)
}

// longer asks whether a longer context, in units of K, misses a smaller share at 0.2: over
// the real traces, by rank.
func (o *observed) longer() reproduce.Line {
	const item = "the longer the context ÷ K, the smaller the share missed at 0.2; rank correlation below 0"
	var contexts, shares []float64
	for _, t := range o.traces {
		contexts, shares = append(contexts, float64(t.context)/float64(t.topk)), append(shares, t.at[middle].mean)
	}
	if len(contexts) < 3 {
		return reproduce.Absent("real traces: "+item, "", reproduce.Target{}, "fewer than three real traces were given. Name some with --traces")
	}
	c := rankCorrelation(contexts, shares)
	l := reproduce.Statement(fmt.Sprintf("%d real traces: %s", len(contexts), item), "", c, c < 0)
	if !l.Holds {
		l.Known, l.Note = true, "tasks differ more than contexts do; "+o.others()
	}
	return l
}
