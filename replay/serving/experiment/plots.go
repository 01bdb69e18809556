package experiment

import (
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// Plots returns the figures of results with curves: latency by share of requests, requests over time,
// and the memory of each system. Points over time stand for spans of width ns.
func Plots(results []*serving.Result) (figures []render.PageFigure, width int64) {
	for _, r := range results {
		for _, run := range r.Curves {
			width = max(width, run.Timeline.Width)
		}
	}
	add := func(title, x, y string, lines ...figure.Line) {
		if len(lines) > 0 {
			figures = append(figures, render.PageFigure{Title: title, Drawing: &figure.Lines{X: x, Y: y, Lines: lines}})
		}
	}
	latency := func(title, x string, unit float64, percentiles func(serving.Curves) []int64) {
		var lines []figure.Line
		for _, r := range results {
			if slices.ContainsFunc(r.Curves, func(c serving.Curves) bool { return percentiles(c) == nil }) {
				continue // lines are means over all seeds
			}
			lines = append(lines, meanLine(r.System, len(r.Curves), 99, func(seed, i int) (x, y float64) {
				return float64(i + 1), float64(percentiles(r.Curves[seed])[i]) / unit
			}))
		}
		add(title, "share of requests (%)", x, lines...)
	}
	latency("Time to the first token", "TTFT at most (s)", 1e9, func(c serving.Curves) []int64 { return c.TTFT })
	latency("Time per output token", "TPOT at most (ms)", 1e6, func(c serving.Curves) []int64 { return c.TPOT })
	states := make([]states, len(results))
	for i, r := range results {
		states[i] = spans(r, width)
	}
	requests := func(title, y string, value func(*serving.Span) float64) {
		var lines []figure.Line
		for i, r := range results {
			lines = append(lines, states[i].line(r.System, width, value))
		}
		add(title, "time (s)", y, lines...)
	}
	requests("Running requests", "running requests, mean", func(s *serving.Span) float64 { return s.Running })
	requests("Waiting requests", "waiting requests, mean", func(s *serving.Span) float64 { return s.Waiting })
	for i, r := range results {
		var lines []figure.Line
		for k, pool := range serving.Pools {
			lines = append(lines, states[i].line(pool, width, func(s *serving.Span) float64 { return float64(s.Memory[k]) / 1e9 }))
		}
		add("GPU memory of "+r.System, "time (s)", "memory of a GPU, largest (GB)", lines...)
	}
	return figures, width
}

// states are the spans of the seeds of a system.
type states [][]serving.Span

// spans divides the runs of a result into spans of equal width.
func spans(r *serving.Result, width int64) (all states) {
	for _, run := range r.Curves {
		run.Timeline.Widen(width)
		all = append(all, run.Timeline.Spans())
	}
	return all
}

// line returns a value over time. A run that has ended has only the weights.
func (all states) line(name string, width int64, value func(*serving.Span) float64) figure.Line {
	most := 0
	for _, spans := range all {
		most = max(most, len(spans))
	}
	return meanLine(name, len(all), most, func(seed, i int) (x, y float64) {
		s := &serving.Span{Memory: [len(serving.Pools)]int64{all[seed][0].Memory[0]}}
		if i < len(all[seed]) {
			s = &all[seed][i]
		}
		return (float64(i) + 0.5) * float64(width) / 1e9, value(s)
	})
}

// meanLine returns the mean over seeds at each point, with the smallest and the largest value.
func meanLine(name string, seeds, points int, at func(seed, i int) (x, y float64)) figure.Line {
	l := figure.Line{Name: name, Bare: true}
	for i := range points {
		p := figure.Point{Low: math.Inf(1), High: math.Inf(-1)}
		for seed := range seeds {
			x, y := at(seed, i)
			p.X, p.Y, p.Low, p.High = x, p.Y+y/float64(seeds), min(p.Low, y), max(p.High, y)
		}
		l.Points = append(l.Points, p)
	}
	return l
}
