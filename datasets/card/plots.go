package card

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

func (c *corpus) plots() (map[string][]byte, error) {
	plots := map[string][]byte{}
	deepest := c.deepest()
	for name, ch := range map[string]*chart.Chart{
		"overlap-layers.svg": deepest.overlapLayers(),
		"lru-layers.svg":     deepest.lruLayers(),
		"lru-capacity.svg":   c.lruCapacity(),
		"next-topk.svg":      c.nextTopK(),
		"working-sets.svg":   c.workingSets(),
		"reentry-gaps.svg":   c.reentryGaps(),
		"overlap-tasks.svg":  c.overlapTasks(),
		"selectors.svg":      c.selectorBars(),
	} {
		if ch.Empty() {
			continue
		}
		svg, err := ch.Draw()
		if err != nil {
			return nil, fmt.Errorf("card: %s: %w", name, err)
		}
		plots[name] = svg
	}
	return plots, nil
}

// byLayer returns a line of a figure over layers.
func byLayer(name string, layers []group[int32], figure func(*facts) share) chart.Line {
	l := chart.Line{Name: name}
	for i := range layers {
		if v := figure(&layers[i].facts); v.ok {
			l.Points = append(l.Points, plotter.XY{X: float64(layers[i].key), Y: v.v})
		}
	}
	return l
}

// layerTicks returns ticks at the set's layers, at every fifth if there are many.
func (x *set) layerTicks() plot.ConstantTicks {
	layers := x.layers()
	var at []float64
	for i := range layers {
		if len(layers) <= 12 || i%5 == 0 {
			at = append(at, float64(layers[i].key))
		}
	}
	return chart.Ticks(at...)
}

func (x *set) only(is func(*stream) bool) *set {
	y := *x
	y.streams = slice.Filter(x.streams, is)
	return &y
}

func (x *set) overlapLayers() *chart.Chart {
	ch := &chart.Chart{Title: "Overlap of consecutive demands by layer, part " + x.name, X: "layer", Y: "overlap with the step before", Ticks: x.layerTicks()}
	for _, t := range x.tasks() {
		ch.Lines = append(ch.Lines, byLayer(t.key, x.only(func(s *stream) bool { return s.task == t.key }).layers(), (*facts).overlap))
	}
	return ch
}

func (x *set) lruLayers() *chart.Chart {
	ch := &chart.Chart{Title: "Hit rate of LRU at 2 × K by layer and head, part " + x.name, X: "layer", Y: "hits ÷ demand", Ticks: x.layerTicks()}
	for _, h := range x.heads() {
		name := fmt.Sprintf("head %d", h.key)
		if h.key == trace.NoHead {
			name = "heads share"
		}
		ch.Lines = append(ch.Lines, byLayer(name, x.only(func(s *stream) bool { return s.info.Head == h.key }).layers(), hitsOf(lru2)))
	}
	return ch
}

// eachFile adds one line for every trace of the sets.
func (c *corpus) eachFile(ch *chart.Chart, points func(x *set, f *facts) plotter.XYs) *chart.Chart {
	for _, x := range c.sets {
		file := func(s *stream) string { return strings.TrimSuffix(s.source.name, ".parquet") }
		files := groups(x.streams, file, strings.Compare)
		for i := range files {
			if p := points(x, &files[i].facts); len(p) > 0 {
				ch.Lines = append(ch.Lines, chart.Line{Name: files[i].key, Points: p})
			}
		}
	}
	return ch
}

func (c *corpus) lruCapacity() *chart.Chart {
	ch := &chart.Chart{Title: "Hit rate of LRU over capacity", X: "capacity of a stream ÷ K (log scale)", Y: "hits ÷ demand", Log: true}
	for _, m := range multiples {
		ch.Ticks = append(ch.Ticks, chart.Ticks(m.of)...)
	}
	return c.eachFile(ch, func(_ *set, f *facts) (points plotter.XYs) {
		for _, m := range multiples {
			if v := f.hits(m.cell); v.ok {
				points = append(points, plotter.XY{X: m.of, Y: v.v})
			}
		}
		return points
	})
}

func (c *corpus) nextTopK() *chart.Chart {
	ch := &chart.Chart{Title: "A step's Top-M against the next step's Top-K", X: "M ÷ K", Y: "share of the next Top-K", Ticks: chart.Ticks(0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4)}
	return c.eachFile(ch, func(x *set, f *facts) (points plotter.XYs) {
		if f.next == nil {
			return nil
		}
		last := 0
		for i := range 21 {
			m := int(math.Round(float64(x.m) * float64(i) / 20))
			if v := f.nextTopK(m); v.ok && (m > last || i == 0) {
				points, last = append(points, plotter.XY{X: float64(m) / float64(x.k), Y: v.v}), m
			}
		}
		return points
	})
}

func (c *corpus) workingSets() *chart.Chart {
	ch := &chart.Chart{Title: "Working set over steps", X: "consecutive steps (log scale)", Y: "distinct blocks ÷ demand of a step", Log: true, Open: true}
	for _, w := range locality.Windows {
		ch.Ticks = append(ch.Ticks, chart.Ticks(float64(w))...)
	}
	return c.eachFile(ch, func(_ *set, f *facts) (points plotter.XYs) {
		for w, steps := range locality.Windows {
			if v := f.workingSet(w); v.ok {
				points = append(points, plotter.XY{X: float64(steps), Y: v.v})
			}
		}
		return points
	})
}

func (c *corpus) reentryGaps() *chart.Chart {
	ch := &chart.Chart{Title: "Demand that one of the last n steps demanded", X: "n (log scale)", Y: "share of the demand", Log: true, Ticks: chart.Ticks(1, 2, 3, 4, 8, 16, 32, 64)}
	for _, x := range c.sets {
		f := x.all()
		l := chart.Line{Name: x.name}
		for _, n := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
			if v := f.keptFor(n); v.ok {
				l.Points = append(l.Points, plotter.XY{X: float64(n), Y: v.v})
			}
		}
		ch.Lines = append(ch.Lines, l)
	}
	return ch
}

func (c *corpus) overlapTasks() *chart.Chart {
	ch := &chart.Chart{Title: "Overlap of consecutive demands by task", Y: "overlap with the step before", Series: []string{"overlap"}}
	for _, x := range c.sets {
		for _, t := range x.tasks() {
			name := t.key
			if name != x.name {
				name = x.name + ": " + name
			}
			ch.Bars = append(ch.Bars, chart.Bar{Name: name, Values: []float64{t.facts.overlap().v}})
		}
	}
	slices.Reverse(ch.Bars)
	return ch
}

func (c *corpus) selectorBars() *chart.Chart {
	ch := &chart.Chart{Title: "Selectors against the exact Top-K", Y: "share of the exact Top-K, and of its attention mass", Series: []string{"recall", "mass (as captured)"}}
	for i := range c.recalls {
		r := &c.recalls[i]
		name := r.name + fmt.Sprintf(", block %d", r.block)
		if len(c.parts()) > 1 && c.recalls[0].part != r.part {
			name = r.part + ": " + name
		}
		ch.Bars = append(ch.Bars, chart.Bar{Name: name, Values: []float64{r.share().v, meanOf(r.mass).v}})
	}
	slices.Reverse(ch.Bars)
	return ch
}
