package render

import (
	"errors"
	"io"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/chart"
)

// lruPolicy is the contender that the picture of a ranking highlights.
const lruPolicy = "lru"

// RankingPlot draws the figure that the ranked exact policies are ranked by, with intervals, as
// SVG. A line marks OPT's. A board that ranks no exact policy is an error.
func RankingPlot(w io.Writer, b *board.Board, view View, dark bool) error {
	if !HasRankingPlot(b) {
		return errors.New("ranking plot: no policy is ranked")
	}
	t := &b.Tables[0]
	of := keyViews[t.Key]
	view.Wide = false
	names := view.PolicyNames(slice.Map(t.Ranked, func(l board.Line) string { return l.Policy }))
	dots := chart.Dots{Title: b.Incomplete.Titled(b.Labels.Title(of.title)), X: of.axis, Dark: dark}
	if t.Intervals() {
		dots.X += ", with 95 % intervals"
	}
	figures := slice.Map(t.Ranked, func(x board.Line) *board.Figure { return t.Key.Of(x.Pooled) })
	u := of.unit.column(figures)
	for i, f := range figures {
		policy := t.Ranked[i].Policy
		dot := chart.Dot{Name: names[policy], Label: u.text(f), Highlight: policy == lruPolicy}
		dot.Value, dot.Low, dot.High = interval(f, of.unit.scale)
		if f.Bounded() {
			dot.Label += " " + u.interval(f)
		}
		dots.Rows = append(dots.Rows, dot)
	}
	if f := optimumOf(t); f != nil {
		dots.Lines = append(dots.Lines, chart.Mark{Name: "OPT", Value: of.unit.scale * f.Value})
	}
	svg, err := dots.Draw()
	if err != nil {
		return err
	}
	_, err = w.Write(svg)
	return err
}

// optimumOf returns the figure of OPT by which the ranking ranks, nil without one.
func optimumOf(t *board.Ranking) *board.Figure {
	for _, l := range t.Bounds {
		if l.Policy == board.OptPolicy && l.Pooled != nil {
			return t.Key.Of(l.Pooled)
		}
	}
	return nil
}

// HasRankingPlot reports whether the board ranks exact policies, which RankingPlot draws.
func HasRankingPlot(b *board.Board) bool { return len(b.Tables) > 0 && len(b.Tables[0].Ranked) > 0 }
