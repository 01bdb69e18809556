package render

import (
	"errors"
	"io"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
)

// lruPolicy is the contender that the picture of a ranking highlights.
const lruPolicy = "lru"

const rankingWidth = 130 // millimetres

// RankingPlot draws the figure that the ranked exact policies are ranked by, with intervals, as
// SVG. A line marks OPT's. A board that ranks no exact policy is an error.
func RankingPlot(w io.Writer, b *board.Board, view View, dark bool) error {
	if !HasRankingPlot(b) {
		return errors.New("ranking plot: no policy is ranked")
	}
	t := &b.Tables[0]
	view.Wide = false
	d := rankingDots(t, t.Ranked, view, func(l *board.Line, u unit) string {
		if f := t.Key.Of(l.Pooled); f.Bounded() {
			return " " + u.interval(f)
		}
		return ""
	})
	for i := range d.Rows {
		d.Rows[i].Highlight = t.Ranked[i].Policy == lruPolicy
	}
	if t.Intervals() {
		d.X += ", with 95 % intervals"
	}
	title := b.Incomplete.Titled(b.Labels.Title(keyViews[t.Key].title))
	return writeFigure(w, figure.Figure{Drawing: d, Title: title, Size: figure.Size{Width: rankingWidth}, Dark: dark})
}

// writeFigure writes a figure of a board as SVG, with its title above it.
func writeFigure(w io.Writer, f figure.Figure) error {
	f.Heading, f.White = true, true
	svg, err := f.Draw(".svg")
	if err == nil {
		_, err = w.Write(svg)
	}
	return err
}

// rankingDots plots the figure by which a ranking ranks for some of its lines. Function further returns
// the text of a line behind its figure.
func rankingDots(t *board.Ranking, lines []board.Line, view View, further func(*board.Line, unit) string) *figure.Dots {
	of, short := keyViews[t.Key], view.PolicyNames(slice.Map(lines, func(l board.Line) string { return l.Policy }))
	u := of.unit.column(slice.Map(lines, func(l board.Line) *board.Figure { return t.Key.Of(l.Pooled) }))
	d := &figure.Dots{X: of.axis}
	for i := range lines {
		f := t.Key.Of(lines[i].Pooled)
		row := figure.Row{Name: short[lines[i].Policy], Label: u.text(f) + further(&lines[i], u)}
		row.Value, row.Low, row.High = interval(f, of.unit.scale)
		d.Rows = append(d.Rows, row)
	}
	if f := optimumOf(t); f != nil {
		d.Marks = append(d.Marks, figure.Row{Name: "OPT", Value: of.unit.scale * f.Value})
	}
	return d
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
