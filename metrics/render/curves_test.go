package render

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
	"gonum.org/v1/plot/plotter"
)

func TestCurvesAreSVG(t *testing.T) {
	b := mustBoard(t, rowstest.Synthetic())
	var out bytes.Buffer
	fatal.If(t, Curves(&out, b, "synthetic-qa.parquet"))
	text := out.String()
	for _, want := range []string{">[synthetic trace] synthetic-qa.parquet", "<title>[synthetic trace] Misses over capacity", "K = 64, warm-up lru:32", ">opt<", ">opt-bypass", ">s3fifo<", "log scale", ">× OPT (misses", ">miss ratio (misses", "stroke-dasharray:5,3"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	for dec := xml.NewDecoder(&out); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCurvePoints(t *testing.T) {
	b := mustBoard(t, rowstest.HandRows())
	curves := curvesOn(b, "a")
	p := curves[slices.IndexFunc(curves, func(c curve) bool { return c.policy == "p" })]
	// The misses are 50 and 30 of 100. 1x and 2x are known without entries.
	if got := fmt.Sprint(p.points); got != "[{1 0.5} {2 0.3}]" {
		t.Errorf("points %s", got)
	}
}

// TestRatioScale: the scale is that of the contenders. A much worse contender and a much lower
// bound leave it, and the legend says so.
func TestRatioScale(t *testing.T) {
	line := func(name string, bound bool, ys ...float64) curve {
		c := curve{policy: name, bound: bound}
		for i, y := range ys {
			c.ratios = append(c.ratios, plotter.XY{X: float64(i + 1), Y: y})
		}
		return c
	}
	curves := []curve{line("opt", true, 1, 1), line("opt-bypass", true, 0.5, 1), line("a", false, 1.2, 1.4), line("b", false, 1.3, 2), line("static", false, 2, 9)}
	s := ratioScaleOf(curves)
	// From 0.95 of OPT to 1.5 × 2, the median contender's worst, and 3 % beyond.
	if math.Abs(s.low-0.95/1.03) > 1e-9 || math.Abs(s.high-3*1.03) > 1e-9 {
		t.Errorf("scale %+v", s)
	}
	for _, c := range curves {
		want := map[string]string{"opt-bypass": " (off the scale, to 0.5 × OPT)", "static": " (off the scale, to 9 × OPT)"}[c.policy]
		if got := s.beyond(c); got != want {
			t.Errorf("%s%s, want %q", c.policy, got, want)
		}
	}
	if s := ratioScaleOf([]curve{{policy: "lru"}}); s != (ratioScale{}) {
		t.Errorf("a scale without OPT: %+v", s)
	}
	for _, s := range []ratioScale{{0.97, 1.03}, {0.9, 1.3}, {0.95, 3.5}, {0.95, 30}} {
		if n := len(chart.LogTicks(s.low, s.high, 18)); n < 3 || n > 18 {
			t.Errorf("%d ticks on %+v", n, s)
		}
	}
}

// TestEndsOfTheCapacityAxisAreLabelled, whether they are familiar or not.
func TestEndsOfTheCapacityAxisAreLabelled(t *testing.T) {
	var sizes []float64
	for n := range 30 {
		sizes = append(sizes, 1.1+0.5*float64(n))
	}
	for _, sizes := range [][]float64{sizes, {1.25, 1.3, 4}, {2}} {
		ticks := sizeTicks(sizes)
		if ticks[0].Label == "" || ticks[len(ticks)-1].Label == "" {
			t.Errorf("of %v the ends are %+v and %+v", sizes, ticks[0], ticks[len(ticks)-1])
		}
	}
}

// TestCurvesWithoutOPT: a trace without OPT has its miss ratios.
func TestCurvesWithoutOPT(t *testing.T) {
	var out bytes.Buffer
	fatal.If(t, Curves(&out, mustBoard(t, append(rowstest.HandRows(), rowstest.Row("c", "lru", "1x", 5))), "c"))
	if text := out.String(); strings.Contains(text, "× OPT") || !strings.Contains(text, ">miss ratio") {
		t.Error("the picture is not of miss ratios alone")
	}
}

// TestEntriesPlaceCapacities: if requests have different capacities, the mean counts, in multiples
// of K.
func TestEntriesPlaceCapacities(t *testing.T) {
	rows := append(rowstest.ByRequest("p", []int64{3, 4}), rowstest.ByRequest("opt", []int64{1, 2})...)
	for i := range rows {
		rows[i].Capacity, rows[i].CapacityEntries = rowstest.Ptr("0.2ctx"), rowstest.Ptr(int64(20*(1+i%2)))
	}
	if got := *mustBoard(t, rows).Cells[0].CapacityOverK; got != 3 { // (20 + 40) ÷ 2 ÷ 10
		t.Errorf("capacity %v K, want 3", got)
	}
	rows[0].CapacityEntries, rows[2].CapacityEntries = nil, nil // of one request
	if got := CurveTraces(mustBoard(t, rows)); got != nil {
		t.Errorf("curves of %v, whose capacities are not known", got)
	}
}

func TestCurveNames(t *testing.T) {
	var rows []result.Row
	for _, trace := range []string{"a b.parquet", "a_b", "../x"} {
		rows = append(rows, rowstest.Row(trace, "opt", "1x", 4), rowstest.Row(trace, "lru", "1x", 5))
	}
	b := mustBoard(t, rows)
	names, cold := CurveNames(b, "", nil), CurveNames(b, "-cold", []string{"curves-a_b-cold.svg"})
	for trace, want := range map[string][2]string{
		"a b.parquet": {"curves-a_b.svg", "curves-a_b-cold-2.svg"},
		"a_b":         {"curves-a_b-2.svg", "curves-a_b-cold-3.svg"},
		"../x":        {"curves-.._x.svg", "curves-.._x-cold.svg"},
	} {
		if got := [2]string{names[trace], cold[trace]}; got != want {
			t.Errorf("%s: %s, want %s", trace, got, want)
		}
	}
}

// TestManyPoliciesLookDifferent: no two of 24 contenders share colour, glyph and dashes.
func TestManyPoliciesLookDifferent(t *testing.T) {
	rows := []result.Row{rowstest.Row("a", "opt", "1x", 4), rowstest.Row("a", "opt", "2x", 3)}
	for i := range 24 {
		name := fmt.Sprintf("policy-%02d:options=%d", i, i)
		rows = append(rows, rowstest.Row("a", name, "1x", int64(5+i)), rowstest.Row("a", name, "2x", int64(4+i)))
	}
	b := mustBoard(t, rows)
	seen := map[string]string{}
	for policy, s := range curveStyles(b) {
		look := fmt.Sprintf("%v %T %v", s.line.Color, s.mark.Shape, s.line.Dashes)
		if other, ok := seen[look]; ok {
			t.Errorf("%s looks as %s: %s", policy, other, look)
		}
		seen[look] = policy
	}
	if err := Curves(io.Discard, b, "a"); err != nil {
		t.Error(err)
	}
}
