package chart_test

import (
	"bytes"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
)

func lines() *chart.Chart {
	return &chart.Chart{Title: "a < b", X: "x", Y: "y", Open: true, Ticks: chart.Ticks(1, 2),
		Lines: []chart.Line{{Name: "first", Points: plotter.XYs{{X: 1, Y: 3}, {X: 2, Y: 5}}}}}
}

func TestDraw(t *testing.T) {
	if !new(chart.Chart).Empty() || lines().Empty() {
		t.Error("a chart is empty exactly where it has neither points nor bars")
	}
	bars := &chart.Chart{Title: "bars", Y: "share", Series: []string{"one", "two"}, Bars: []chart.Bar{{Name: "row", Values: []float64{0.25, 0.5}}}}
	for _, c := range []*chart.Chart{lines(), bars} {
		a, err := c.Draw()
		fatal.If(t, err)
		b, err := c.Draw()
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: drawn twice, it differs (%v)", c.Title, err)
		}
		title := "<title>" + strings.ReplaceAll(c.Title, "<", "&lt;") + "</title>"
		if !strings.Contains(string(a), title) || !strings.HasSuffix(strings.TrimSpace(string(a)), "</svg>") {
			t.Errorf("%s: no SVG with its title:\n%.300s", c.Title, a)
		}
	}
}

// A logarithmic axis has ticks that have room, also for a small range.
func TestLogTicks(t *testing.T) {
	for _, s := range [][2]float64{{0.97, 1.03}, {0.9, 1.3}, {0.95, 3.5}, {0.95, 30}} {
		if n := len(chart.LogTicks(s[0], s[1], 18)); n < 3 || n > 18 {
			t.Errorf("%d ticks on %v", n, s)
		}
	}
}
