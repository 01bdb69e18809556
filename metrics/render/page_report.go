package render

import (
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
)

// PageFigure is a figure of a page of tables.
type PageFigure struct {
	// Title heads the figure and describes it for readers who cannot see it.
	Title string
	figure.Drawing
	// SVG is the figure if it is drawn already. Drawing is then nil.
	SVG []byte
	// values are the values of the figure. If it is nil, Lines have theirs.
	values *table.Table
}

// pageWidth is the width of figures of a page, in millimetres.
const pageWidth = 180

// ReportPage writes a report as one HTML file that needs no network: the finding, the first table, the
// figures, the other tables, which all sort and filter, and notes. A reader without scripts sees
// everything. Texts are never markup.
func ReportPage(w io.Writer, finding string, r *table.Report, figures []PageFigure, source PageSource) error {
	var body page
	body.put("<section aria-labelledby=\"finding\"><h2 id=\"finding\">Finding</h2>\n<p class=\"finding\">%s</p>\n", finding)
	for i, t := range r.Tables {
		body.put("<section class=\"figure table\"><h3>%s</h3>\n", t.Title)
		body.table(t)
		body.notes(t.Notes)
		body.put("</section>\n")
		if i > 0 {
			continue
		}
		for _, f := range figures {
			if err := body.drawn(&f, func() { body.reproduce(source, "notes", "inputs") }); err != nil {
				return err
			}
		}
	}
	if len(r.Footnotes) > 0 {
		body.put("<h3 id=\"notes\">Notes</h3>\n")
		body.notes(r.Footnotes)
	}
	body.put("</section>\n")
	_, err := w.Write(shell(r.Title, body.Bytes(), source, "Without JavaScript the tables do not sort.", "", "", pageFile("page.js")))
	return err
}

// table writes a table with room for its controls.
func (p *page) table(t *table.Table) {
	p.put("<div class=\"controls\"></div>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">%s</div>\n", t.Title, markup(t.HTML()))
}

// drawn writes a figure. If its values are known, it writes them as a table, and then reproduce writes
// its lines.
func (p *page) drawn(f *PageFigure, reproduce func()) error {
	svg := f.SVG
	if svg == nil {
		var err error
		if svg, err = (&figure.Figure{Drawing: f.Drawing, Title: f.Title, Size: figure.Size{Width: pageWidth}}).Draw(".svg"); err != nil {
			return err
		}
	}
	t := f.values
	if lines, ok := f.Drawing.(*figure.Lines); ok && t == nil {
		t = values(lines)
	}
	class := "drawn"
	if t != nil {
		class += " table"
	}
	p.put("<figure class=\"%s\"><figcaption><h3>%s</h3></figcaption>\n<div class=\"scroll\" role=\"img\" tabindex=\"0\" aria-label=\"%s\">%s</div>\n", class, f.Title, f.Title, markup(svg))
	if t != nil {
		t.Title = f.Title + ": values"
		p.put("<details><summary>Values</summary>\n")
		p.table(t)
		p.put("</details>\n")
		reproduce()
	}
	p.put("</figure>\n")
	return nil
}

// values returns the points of lines: a row for each X, and a column for each line. The ends of a line's
// intervals have columns, too.
func values(l *figure.Lines) *table.Table {
	t := table.New(l.X)
	var xs []float64
	intervals := make([]bool, len(l.Lines))
	for i, line := range l.Lines {
		t.Header = append(t.Header, line.Name)
		if intervals[i] = slices.ContainsFunc(line.Points, func(p figure.Point) bool { return p.Low < p.High }); intervals[i] {
			t.Header = append(t.Header, line.Name+", low", line.Name+", high")
		}
		for _, p := range line.Points {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	number := func(x float64) string { return strconv.FormatFloat(math.Round(1e4*x)/1e4, 'f', -1, 64) }
	next := make([]int, len(l.Lines)) // point of each line
	for _, x := range slices.Compact(xs) {
		row := []string{number(x)}
		for i, line := range l.Lines {
			cells := make([]string, 1, 3)
			if intervals[i] {
				cells = cells[:3]
			}
			if next[i] < len(line.Points) && line.Points[next[i]].X == x {
				p := &line.Points[next[i]]
				copy(cells, []string{number(p.Y), number(p.Low), number(p.High)})
				next[i]++
			}
			row = append(row, cells...)
		}
		t.AddTexts(row)
	}
	return t
}
