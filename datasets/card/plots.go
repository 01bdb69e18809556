package card

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// mostLines is the number of lines of a plot. Readers cannot distinguish more.
const mostLines = 24

// titled is a drawing with its title, or nil without data.
type titled struct {
	title string
	figure.Drawing
}

// ofLines draws lines without markers. It leaves out points without a figure, lines without points, and
// lines beyond mostLines.
func ofLines(title string, l figure.Lines) titled {
	for i := range l.Lines {
		l.Lines[i].Points = slices.DeleteFunc(l.Lines[i].Points, func(p figure.Point) bool { return !known(p.Y) })
	}
	l.Lines = slices.DeleteFunc(l.Lines, func(line figure.Line) bool { return len(line.Points) == 0 })
	if n := len(l.Lines); n > mostLines {
		title += fmt.Sprintf(", %d of %d lines", mostLines, n)
		l.Lines = l.Lines[:mostLines]
	}
	if len(l.Lines) == 0 {
		return titled{}
	}
	for i := range l.Lines {
		l.Lines[i].Bare = true
	}
	return titled{title, &l}
}

// ofBars draws bars of shares.
func ofBars(title, x string, series []string, bars []figure.Bar) titled {
	d := figure.Shares(x, series, bars)
	if len(d.Rows) == 0 {
		return titled{}
	}
	return titled{title, d}
}

func (c *corpus) plots() (map[string][]byte, error) {
	plots := map[string][]byte{}
	deepest := c.deepest()
	for name, d := range map[string]titled{
		"overlap-layers.svg": deepest.overlapLayers(),
		"lru-layers.svg":     deepest.lruLayers(),
		"lru-capacity.svg":   c.lruCapacity(),
		"next-topk.svg":      c.nextTopK(),
		"working-sets.svg":   c.workingSets(),
		"reentry-gaps.svg":   c.reentryGaps(),
		"overlap-tasks.svg":  c.overlapTasks(),
		"selectors.svg":      c.selectorBars(),
	} {
		if d.Drawing == nil {
			continue
		}
		svg, err := figure.ForDocument(d.title, d.Drawing)
		if err != nil {
			return nil, fmt.Errorf("card: %s: %w", name, err)
		}
		plots[name] = svg
	}
	return plots, nil
}

// byLayer returns a line of a figure over layers.
func byLayer(name string, layers []group[int32], of func(*facts) float64) figure.Line {
	return figure.Line{Name: name, Points: slice.Map(layers, func(l group[int32]) figure.Point { return figure.At(float64(l.key), of(&l.facts)) })}
}

// layerTicks returns ticks at the set's layers, at every fifth if there are many.
func (x *set) layerTicks() (at []float64) {
	layers := x.layers()
	for i := range layers {
		if len(layers) <= 12 || i%5 == 0 {
			at = append(at, float64(layers[i].key))
		}
	}
	return at
}

func (x *set) only(is func(*stream) bool) *set {
	y := *x
	y.streams = slice.Filter(x.streams, is)
	return &y
}

func (x *set) overlapLayers() titled {
	l := figure.Lines{X: "layer", Y: "overlap with the step before", Ticks: x.layerTicks(), Share: true}
	for _, t := range x.tasks() {
		l.Lines = append(l.Lines, byLayer(t.key, x.only(func(s *stream) bool { return s.task == t.key }).layers(), (*facts).overlap))
	}
	return ofLines("Overlap of consecutive demands by layer, part "+x.name, l)
}

func (x *set) lruLayers() titled {
	l := figure.Lines{X: "layer", Y: "hits ÷ demand", Ticks: x.layerTicks(), Share: true}
	for _, h := range x.heads() {
		name := fmt.Sprintf("head %d", h.key)
		if h.key == trace.NoHead {
			name = "heads share"
		}
		l.Lines = append(l.Lines, byLayer(name, x.only(func(s *stream) bool { return s.info.Head == h.key }).layers(), hitsOf(lru2)))
	}
	return ofLines("Hit rate of LRU at 2 × K by layer and head, part "+x.name, l)
}

// eachFile returns a line for every trace of the sets.
func (c *corpus) eachFile(points func(x *set, f *facts) []figure.Point) (lines []figure.Line) {
	for _, x := range c.sets {
		file := func(s *stream) string { return strings.TrimSuffix(s.source.name, ".parquet") }
		for _, g := range groups(x.streams, file, strings.Compare) {
			lines = append(lines, figure.Line{Name: g.key, Points: points(x, &g.facts)})
		}
	}
	return lines
}

func (c *corpus) lruCapacity() titled {
	l := figure.Lines{X: "capacity of a stream ÷ K (log scale)", Y: "hits ÷ demand", LogX: true, Share: true}
	l.Ticks = slice.Map(multiples, func(m multiple) float64 { return m.of })
	l.Lines = c.eachFile(func(_ *set, f *facts) []figure.Point {
		return slice.Map(multiples, func(m multiple) figure.Point { return figure.At(m.of, f.hits(m.cell)) })
	})
	return ofLines("Hit rate of LRU over capacity", l)
}

func (c *corpus) nextTopK() titled {
	l := figure.Lines{X: "M ÷ K", Y: "share of the next Top-K", Ticks: []float64{0, 0.5, 1, 1.5, 2, 3, 4}, Share: true}
	l.Lines = c.eachFile(func(x *set, f *facts) (points []figure.Point) {
		if f.next == nil {
			return nil
		}
		last := 0
		for i := range 21 {
			m := int(math.Round(float64(x.m) * float64(i) / 20))
			if m > last || i == 0 {
				points, last = append(points, figure.At(float64(m)/float64(x.k), f.nextTopK(m))), m
			}
		}
		return points
	})
	return ofLines("A step's Top-M against the next step's Top-K", l)
}

func (c *corpus) workingSets() titled {
	l := figure.Lines{X: "consecutive steps (log scale)", Y: "distinct blocks ÷ demand of a step", LogX: true}
	l.Ticks = slice.Map(locality.Windows[:], func(w int) float64 { return float64(w) })
	l.Lines = c.eachFile(func(_ *set, f *facts) (points []figure.Point) {
		for w, steps := range locality.Windows {
			points = append(points, figure.At(float64(steps), f.workingSet(w)))
		}
		return points
	})
	return ofLines("Working set over steps", l)
}

func (c *corpus) reentryGaps() titled {
	l := figure.Lines{X: "n (log scale)", Y: "share of the demand", LogX: true, Share: true, Ticks: []float64{1, 2, 4, 8, 16, 32, 64}}
	for _, x := range c.sets {
		f := x.all()
		l.Lines = append(l.Lines, figure.Line{Name: x.name, Points: slice.Map([]int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64},
			func(n int) figure.Point { return figure.At(float64(n), f.keptFor(n)) })})
	}
	return ofLines("Demand that one of the last n steps demanded", l)
}

func (c *corpus) overlapTasks() titled {
	var bars []figure.Bar
	for _, x := range c.sets {
		for _, t := range x.tasks() {
			name := t.key
			if name != x.name {
				name = x.name + ": " + name
			}
			bars = append(bars, figure.Bar{Name: name, Values: []float64{t.facts.overlap()}})
		}
	}
	return ofBars("Overlap of consecutive demands by task", "overlap with the step before", nil, bars)
}

func (c *corpus) selectorBars() titled {
	var bars []figure.Bar
	for i := range c.recalls {
		r := &c.recalls[i]
		name := r.name + fmt.Sprintf(", block %d", r.block)
		if len(c.parts()) > 1 && c.recalls[0].part != r.part {
			name = r.part + ": " + name
		}
		bars = append(bars, figure.Bar{Name: name, Values: []float64{r.share(), mean(r.mass)}})
	}
	return ofBars("Selectors against the exact Top-K", "share of the exact Top-K, and of its attention mass", []string{"recall", "mass (as captured)"}, bars)
}
