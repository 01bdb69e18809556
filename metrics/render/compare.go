package render

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Comparison lays out a comparison of two policies. A group in which the two share no cell
// has no table.
func Comparison(c *board.Comparison) *table.Report {
	r := new(table.Report)
	for i := range c.Groups {
		g := &c.Groups[i]
		t := comparisonTable(g)
		t.Title = c.Incomplete.Titled(g.Labels.Title(fmt.Sprintf("A = %s against B = %s", c.A, c.B) + startText(g.Start)))
		t.Notes = slices.Concat(g.Notes, c.Legend(g))
		r.Tables = append(r.Tables, t)
	}
	return r
}

// Comparisons lays out the comparisons of all policies with one.
func Comparisons(c *board.Comparisons) *table.Report {
	r := new(table.Report)
	for i := range c.Groups {
		g := &c.Groups[i]
		t := policiesTable(g)
		t.Title = c.Incomplete.Titled(g.Labels.Title("Every policy A against B = " + c.B + startText(g.Start)))
		t.Notes = slices.Concat(g.Notes, c.Legend(g))
		r.Tables = append(r.Tables, t)
	}
	return r
}

// startText is the text of a start in a title. It is empty for warmed caches.
func startText(start string) string {
	if start == result.ColdStart {
		return ", cold starts"
	}
	return ""
}

func comparisonTable(g *board.ComparedGroup) *table.Table {
	if g.Pooled == nil {
		return table.New()
	}
	t := table.New("trace", "capacity", "misses A", "misses B", "A ÷ B", "95 %", "requests A:B:=", "p", "streams A:B:=", "better").RightFrom(2)
	add := func(d *board.Contest, u unit, trace, capacity string) {
		ratio, interval := ratioTexts(d, u)
		t.Add(trace, capacity, d.MissesA, d.MissesB, ratio, interval, votesText(d.Requests), pText(d.P), votesText(d.Streams), d.Verdict(d.P, 1))
	}
	single := ratioUnit.column(board.Ratios(g.Cells))
	for i := range g.Cells {
		trace := g.Cells[i].Trace
		if apart := g.Cells[i].Labels.Without(g.Labels); len(apart) > 0 {
			trace = fmt.Sprintf("%s (%s)", trace, apart)
		}
		add(&g.Cells[i], single, trace, g.Cells[i].Capacity)
	}
	t.Line()
	add(g.Pooled, ratioUnit.column([]*board.Figure{g.Pooled.Ratio}), "pooled", text.Count(len(g.Cells), "cell"))
	return t
}

// ratioTexts are A ÷ B and its interval.
func ratioTexts(d *board.Contest, u unit) (ratio, interval string) {
	ratio, interval = u.cell(d.Ratio), u.interval(d.Ratio)
	if interval == "" { // every request has the same ratio
		interval = fmt.Sprintf("[%[1]s, %[1]s]", u.text(d.Ratio))
	}
	if d.Inverse != nil { // B alone has no miss
		if ratio = "∞"; d.Inverse.Bounded() {
			interval = "[∞, ∞]"
		}
	}
	return ratio, interval
}

// pText shows p with two digits, or with more if two would show another verdict.
func pText(p *float64) string {
	if p == nil {
		return notAvailable
	}
	if *p < 1e-4 {
		return "< 0.0001"
	}
	for digits := 2; ; digits++ {
		text := rounded(*p, digitsOf(*p, digits))
		if shown, err := strconv.ParseFloat(text, 64); err == nil && (shown < board.Significant) == (*p < board.Significant) {
			return text
		}
	}
}

// votesText is "wins:losses:ties".
func votesText(v *board.Votes) string {
	if v == nil {
		return notAvailable
	}
	return fmt.Sprintf("%d:%d:%d", v.Wins, v.Losses, v.Ties)
}

func policiesTable(g *board.ComparedPolicies) *table.Table {
	t := table.New("A", "cells", "A ÷ B", "95 %", "requests A:B:=", "p", "A is").RightFrom(1)
	u := ratioUnit.column(board.Ratios(g.Contests()))
	bounds := false
	for i := range g.Policies {
		p := &g.Policies[i]
		if p.Bound && !bounds && i > 0 {
			t.Line()
		}
		bounds = p.Bound
		verdict := p.Verdict(p.PHolm, g.Tests())
		switch {
		case p.Bound:
			verdict = "bound"
		case p.Better != nil && *p.Better == p.A:
			verdict = "better"
		case p.Better != nil:
			verdict = "worse"
		}
		ratio, interval := ratioTexts(&p.Contest, u)
		t.Add(p.A, p.Cells, ratio, interval, votesText(p.Requests), pText(p.PHolm), verdict)
	}
	return t
}
