package render

import (
	"cmp"
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
func Comparison(c *board.Comparison, view View) *table.Report {
	r := view.report("")
	for i := range c.Groups {
		g := &c.Groups[i]
		names := view.PolicyNames([]string{c.A, c.B})
		t := comparisonTable(g, view, names)
		t.Title = c.Incomplete.Titled(g.Labels.Title(fmt.Sprintf("A = %s against B = %s", c.A, c.B) + startText(g.Start)))
		t.Notes = view.notes(slices.Concat(g.Notes, c.Legend(g)), mostNotes)
		r.Tables = append(r.Tables, t)
	}
	r.Footnotes = view.footnotes(nil, "--wide (all columns), --notes (all notes)")
	return r
}

// Comparisons lays out the comparisons of all policies with one.
func Comparisons(c *board.Comparisons, view View) *table.Report {
	r := view.report("")
	for i := range c.Groups {
		g := &c.Groups[i]
		t := policiesTable(g, view)
		t.Title = c.Incomplete.Titled(g.Labels.Title("Every policy A against B = " + c.B + startText(g.Start)))
		t.Notes = view.notes(slices.Concat(g.Notes, c.Legend(g)), mostNotes)
		r.Tables = append(r.Tables, t)
	}
	r.Footnotes = view.footnotes(nil, "--wide (all columns), --notes (all notes)")
	return r
}

// startText is the text of a start in a title. It is empty for warmed caches.
func startText(start string) string {
	if start == result.ColdStart {
		return ", cold starts"
	}
	return ""
}

func comparisonTable(g *board.ComparedGroup, view View, names map[string]string) *table.Table {
	if g.Pooled == nil {
		return table.New()
	}
	header := []string{"trace", "capacity", "A ÷ B", "95 %", "requests A:B:=", "p", "better"}
	if view.Wide {
		header = []string{"trace", "capacity", "misses A", "misses B", "A ÷ B", "95 %", "requests A:B:=", "p", "streams A:B:=", "better"}
	}
	t := table.New(header...).RightFrom(2)
	add := func(d *board.Contest, u unit, trace, capacity string) {
		ratio, interval := ratioTexts(d, u)
		verdict := d.Verdict(d.P, 1)
		verdict = cmp.Or(names[verdict], verdict)
		if view.Wide {
			t.Add(trace, capacity, d.MissesA, d.MissesB, ratio, interval, votesText(d.Requests), pText(d.P), votesText(d.Streams), verdict)
		} else {
			t.Add(trace, capacity, ratio, interval, votesText(d.Requests), pText(d.P), verdict)
		}
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

func policiesTable(g *board.ComparedPolicies, view View) *table.Table {
	t := table.New("A", "cells", "A ÷ B", "95 %", "requests A:B:=", "p", "A is").RightFrom(1)
	u := ratioUnit.column(board.Ratios(g.Contests()))
	bounds, policies := false, make([]string, len(g.Policies))
	for i := range g.Policies {
		policies[i] = g.Policies[i].A
	}
	names := view.PolicyNames(policies)
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
		t.Add(names[p.A], p.Cells, ratio, interval, votesText(p.Requests), pText(p.PHolm), verdict)
	}
	return t
}

// ComparisonFinding states the pooled result of the first group that has one.
func ComparisonFinding(c *board.Comparison) string {
	for _, g := range c.Groups {
		p := g.Pooled
		if p == nil || p.Ratio == nil {
			continue
		}
		text := fmt.Sprintf("%s misses %.3f times as many blocks as %s", c.A, p.Ratio.Value, c.B)
		if p.Ratio.Low != nil && p.Ratio.High != nil {
			text += fmt.Sprintf(" [%.3f, %.3f]", *p.Ratio.Low, *p.Ratio.High)
		}
		switch {
		case p.P == nil:
			return text + "."
		case p.Better == nil:
			return text + fmt.Sprintf(", which is not significant (p = %.2g).", *p.P)
		}
		return text + fmt.Sprintf(", and %s is significantly better (p = %.2g).", *p.Better, *p.P)
	}
	return "The rows share no cell with misses of both policies."
}
