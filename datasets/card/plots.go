package card

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// plots draws all plots that there are figures for.
func (c *corpus) plots() (map[string][]byte, error) {
	plots := map[string][]byte{}
	deepest := c.deepest()
	for name, ch := range map[string]*chart{
		"overlap-layers.svg": deepest.overlapLayers(),
		"lru-layers.svg":     deepest.lruLayers(),
		"lru-capacity.svg":   c.lruCapacity(),
		"next-topk.svg":      c.nextTopK(),
		"working-sets.svg":   c.workingSets(),
		"reentry-gaps.svg":   c.reentryGaps(),
		"overlap-tasks.svg":  c.overlapTasks(),
		"selectors.svg":      c.selectorBars(),
	} {
		if ch.empty() {
			continue
		}
		svg, err := ch.draw()
		if err != nil {
			return nil, fmt.Errorf("card: %s: %w", name, err)
		}
		plots[name] = svg
	}
	return plots, nil
}

func labelled(values ...float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}

// byLayer is a line of a figure over layers.
func byLayer(name string, layers []group[int32], of func(*facts) share) line {
	l := line{name: name}
	for i := range layers {
		if v := of(&layers[i].facts); v.ok {
			l.points = append(l.points, plotter.XY{X: float64(layers[i].key), Y: v.v})
		}
	}
	return l
}

// layerTicks are the set's layers, every fifth of many.
func (x *set) layerTicks() plot.ConstantTicks {
	layers := x.layers()
	var at []float64
	for i := range layers {
		if len(layers) <= 12 || i%5 == 0 {
			at = append(at, float64(layers[i].key))
		}
	}
	return labelled(at...)
}

// only are the streams of which is true, as a set.
func (x *set) only(is func(*stream) bool) *set {
	y := *x
	y.streams = nil
	for _, s := range x.streams {
		if is(s) {
			y.streams = append(y.streams, s)
		}
	}
	return &y
}

func (x *set) overlapLayers() *chart {
	ch := &chart{title: "Overlap of consecutive demands by layer, part " + x.name, x: "layer", y: "overlap with the step before", ticks: x.layerTicks()}
	for _, t := range x.tasks() {
		ch.lines = append(ch.lines, byLayer(t.key, x.only(func(s *stream) bool { return s.task == t.key }).layers(), (*facts).overlap))
	}
	return ch
}

func (x *set) lruLayers() *chart {
	ch := &chart{title: "Hit rate of LRU at 2 × K by layer and head, part " + x.name, x: "layer", y: "hits ÷ demand", ticks: x.layerTicks()}
	for _, h := range x.heads() {
		name := fmt.Sprintf("head %d", h.key)
		if h.key == trace.NoHead {
			name = "heads share"
		}
		ch.lines = append(ch.lines, byLayer(name, x.only(func(s *stream) bool { return s.info.Head == h.key }).layers(), hitsOf(lru2)))
	}
	return ch
}

// eachFile adds a line of every trace of the sets.
func (c *corpus) eachFile(ch *chart, points func(x *set, f *facts) plotter.XYs) *chart {
	for _, x := range c.sets {
		files := x.files()
		for i := range files {
			if p := points(x, &files[i].facts); len(p) > 0 {
				ch.lines = append(ch.lines, line{files[i].key, p})
			}
		}
	}
	return ch
}

func (c *corpus) lruCapacity() *chart {
	ch := &chart{title: "Hit rate of LRU over capacity", x: "capacity of a stream ÷ K (log scale)", y: "hits ÷ demand", log: true}
	for _, m := range multiples {
		ch.ticks = append(ch.ticks, labelled(m.of)...)
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

func (c *corpus) nextTopK() *chart {
	ch := &chart{title: "A step's Top-M against the next step's Top-K", x: "M ÷ K", y: "share of the next Top-K", ticks: labelled(0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4)}
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

func (c *corpus) workingSets() *chart {
	ch := &chart{title: "Working set over steps", x: "consecutive steps (log scale)", y: "distinct blocks ÷ demand of a step", log: true, open: true}
	for _, w := range locality.Windows {
		ch.ticks = append(ch.ticks, labelled(float64(w))...)
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

func (c *corpus) reentryGaps() *chart {
	ch := &chart{title: "Demand that one of the last n steps demanded", x: "n (log scale)", y: "share of the demand", log: true, ticks: labelled(1, 2, 3, 4, 8, 16, 32, 64)}
	for _, x := range c.sets {
		f := x.all()
		l := line{name: x.name}
		for _, n := range []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
			if v := f.keptFor(n); v.ok {
				l.points = append(l.points, plotter.XY{X: float64(n), Y: v.v})
			}
		}
		ch.lines = append(ch.lines, l)
	}
	return ch
}

func (c *corpus) overlapTasks() *chart {
	ch := &chart{title: "Overlap of consecutive demands by task", y: "overlap with the step before", series: []string{"overlap"}}
	for _, x := range c.sets {
		for _, t := range x.tasks() {
			name := t.key
			if name != x.name {
				name = x.name + ": " + name
			}
			ch.bars = append(ch.bars, bar{name, []float64{t.facts.overlap().v}})
		}
	}
	slices.Reverse(ch.bars)
	return ch
}

func (c *corpus) selectorBars() *chart {
	ch := &chart{title: "Selectors against the exact Top-K", y: "share of the exact Top-K, and of its attention mass", series: []string{"recall", "mass (as captured)"}}
	for i := range c.recalls {
		r := &c.recalls[i]
		name := r.name + fmt.Sprintf(", block %d", r.block)
		if len(c.parts()) > 1 && c.recalls[0].part != r.part {
			name = r.part + ": " + name
		}
		ch.bars = append(ch.bars, bar{name, []float64{r.share().v, meanOf(r.mass).v}})
	}
	slices.Reverse(ch.bars)
	return ch
}
