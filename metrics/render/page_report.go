package render

import (
	"io"

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
}

// pageWidth is the width of figures of a page, in millimetres.
const pageWidth = 180

// ReportPage writes a report as one HTML file that needs no network: the finding, figures, tables that
// sort and filter, and notes. A reader without scripts sees everything. Texts are never markup.
func ReportPage(w io.Writer, finding string, r *table.Report, figures []PageFigure, source PageSource) error {
	var body page
	body.put("<section aria-labelledby=\"finding\"><h2 id=\"finding\">Finding</h2>\n<p class=\"finding\">%s</p>\n", finding)
	for _, f := range figures {
		if err := body.drawn(&f); err != nil {
			return err
		}
	}
	for _, t := range r.Tables {
		body.put("<section class=\"figure table\"><h3>%s</h3>\n<div class=\"controls\"></div>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">%s</div>\n", t.Title, t.Title, markup(t.HTML()))
		body.notes(t.Notes)
		body.put("</section>\n")
	}
	if len(r.Footnotes) > 0 {
		body.put("<h3>Notes</h3>\n")
		body.notes(r.Footnotes)
	}
	body.put("</section>\n")
	_, err := w.Write(shell(r.Title, body.Bytes(), source, "Without JavaScript the tables do not sort.", "", "", pageFile("page.js")))
	return err
}

// drawn writes a figure.
func (p *page) drawn(f *PageFigure) error {
	svg := f.SVG
	if svg == nil {
		var err error
		if svg, err = (&figure.Figure{Drawing: f.Drawing, Title: f.Title, Size: figure.Size{Width: pageWidth}}).Draw(".svg"); err != nil {
			return err
		}
	}
	p.put("<figure class=\"drawn\"><figcaption><h3>%s</h3></figcaption>\n<div class=\"scroll\" role=\"img\" tabindex=\"0\" aria-label=\"%s\">%s</div></figure>\n", f.Title, f.Title, markup(svg))
	return nil
}
